"""The table of protected paths, which no tool may change because other programs act on them.

It works on names relative to the root and opens no file. The host's tools check it before they
change a file, and a command's launcher checks every change of the command
(`ptc.worker.command._broker`). A launcher starts for each command, so this module imports nothing.

Rule 1: A protected name is recognized in every spelling that some file system treats as that name.
    tests/core/test_protected.py::test_every_spelling_of_a_protected_name_is_recognized
Rule 2: Inside a git folder everything is protected except the data that git itself writes when it
    records changes, and only programs may change that. Files that new versions of git add stay
    protected until they have been reviewed. Existing objects stay unchanged.
    tests/core/test_protected.py::test_only_data_files_of_a_git_folder_may_change
Rule 3: A git folder is also recognized by its content, and none can be assembled.
    tests/core/test_protected.py::test_folder_cannot_be_turned_into_a_git_folder
Rule 4: Each entry is checked by its own name and those above it, never by its content, so a
    protected entry can be neither created nor moved: no sequence of changes assembles one.
Rule 5: A file that a session names, such as one with its tools, is protected at its own path, with
    the folders above it: after a move, others could replace them.
    tests/core/test_protected.py::test_named_file_and_the_folders_above_it_are_protected
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    Exists: TypeAlias = Callable[[Sequence[str]], bool]

__all__ = ["RULES", "Protection", "Refusal", "Rule", "explain", "liftable"]


class Rule:
    """One row of the table."""

    __slots__ = ("name", "names", "reason")

    def __init__(self, name: str, reason: str, *names: str) -> None:
        self.name = name
        self.reason = reason
        """Ends the sentence "it is protected: ..."."""
        self.names = names
        """Names of files and folders, at any depth. A leading star matches by suffix."""


RULES = (
    Rule("state", "ptc keeps its own state there", ".ptc", "ptc-journals", "ptc-trusted"),
    Rule("ptc", "ptc loads tools and takes permissions from it", "ptc.toml"),
    Rule("git", "git runs programs that its configuration and hooks name", ".git"),
    Rule(
        *("hooks", "git runs the programs that it names on a commit"),
        *(".githooks", ".husky", ".overcommit.yml"),
        *(".pre-commit-config.yaml", ".pre-commit-config.yml"),
        *(f"{dot}lefthook{local}.{kind}" for dot in ("", ".") for local in ("", "-local")
          for kind in ("yml", "yaml", "toml", "json", "jsonc")),
        *(".lefthook", ".lefthook-local"),
    ),
    Rule(
        *("shell", "shells run it when they start or enter the folder"),
        *(".envrc", ".autoenv", ".autoenv.zsh", ".autoenv_leave.zsh", ".mise", ".miserc.toml"),
        *(f"{dot}mise{local}.toml" for dot in ("", ".") for local in ("", ".local")),
        *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile"),
        *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".shrc"),
        *(".cshrc", ".tcshrc", ".login", ".logout", ".inputrc", ".xprofile", ".xinitrc"),
        *(".xsession", ".xsessionrc", ".pam_environment", "config.fish", ".ssh", ".gitconfig"),
        ".gnupg",
    ),
    Rule(
        *("editor", "editors and debuggers run or trust its content when the folder is opened"),
        *(".vscode", ".idea", ".zed", ".fleet", ".vs", ".devcontainer", ".devcontainer.json"),
        *("*.code-workspace", ".vimrc", ".gvimrc", ".lvimrc", ".exrc", ".nvimrc"),
        *(".nvim.lua", ".dir-locals.el", ".dir-locals-2.el", ".gdbinit", ".lldbinit"),
    ),
    Rule(
        *("agent", "coding agents start the servers and commands that it names"),
        *(".mcp.json", ".claude", ".claude.json", ".cursor", ".codex", ".gemini", ".windsurf"),
        *(".continue", ".roo", ".kiro", ".amazonq", ".opencode", "opencode.json"),
        *("opencode.jsonc", ".aider.conf.yml"),
    ),
    Rule("home", "it lies in the user's home, where programs look for their settings"),
    Rule("named", "the session protects it"),
)  # fmt: skip
"""`home` and `named` have no names: see `Protection`."""

_BY_NAME = {rule.name: rule for rule in RULES}
_FIXED = ("state",)
"""Rules that cannot be lifted."""


class Refusal:
    """Reason why an entry may not be changed."""

    __slots__ = ("entry", "rule")

    def __init__(self, rule: str, entry: str) -> None:
        self.rule = rule
        self.entry = entry
        """The name of the table, or the rule, that lifts it."""


def liftable() -> "list[str]":
    """List the names that `Protection` accepts as lifted: of rules, and of files and folders."""
    rules = [rule for rule in RULES if rule.name not in _FIXED]
    return [*(rule.name for rule in rules), *(name for rule in rules for name in rule.names)]


def explain(path: str, rule: str, entry: str) -> str:
    """Explain why a path is protected, by which rule, and how the owner can lift it."""
    shown = path if len(path) <= 200 else f"{path[:100]}...{path[-80:]}"
    text = f"{shown!r} is protected by the rule {rule!r}: {_BY_NAME[rule].reason}"
    if rule in _FIXED:
        return f"{text}. Use another path; this rule cannot be lifted"
    return (
        f"{text}. Use another path, or ask the owner of the session to lift it: "
        f"Session(unprotected=[{entry!r}]), or --unprotect {entry!r} on the command line"
    )


class Protection:
    """The table without the entries that the owner of a session has lifted."""

    __slots__ = (
        "_files",
        "_git",
        "_home",
        "_names",
        "_short",
        "_suffixes",
        "files",
        "home",
        "lifted",
    )

    def __init__(
        self,
        lifted: "Iterable[str]" = (),
        home: "Sequence[str] | None" = None,
        files: "Iterable[str]" = (),
    ) -> None:
        """Build the table.

        Args:
            lifted: Names of rules, or of files and folders in them.
            home: The user's home, as names relative to the root; ``()`` if it is the root, None if
                it is outside. Names in it that start with a dot, and ``bin``, are protected.
            files: Further protected files and folders: paths relative to the root, with ``/``.
        """
        self.lifted = frozenset(lifted)
        self.files = tuple(files)
        self._files = (
            ()
            if "named" in self.lifted
            else tuple(tuple(map(_normalize, file.split("/"))) for file in self.files)
        )
        self.home = None if home is None else tuple(home)
        self._home = None if "home" in self.lifted or home is None else tuple(home)
        self._git = not {"git", ".git"} & self.lifted
        self._names: dict[str, tuple[str, str]] = {}
        self._suffixes: dict[str, tuple[str, str]] = {}
        for rule in RULES:
            for name in rule.names:
                if rule.name not in _FIXED and {rule.name, name} & self.lifted:
                    continue
                if name.startswith("*"):
                    self._suffixes[_normalize(name[1:])] = rule.name, name
                else:
                    self._names[_normalize(name)] = rule.name, name
        self._short = {_short_name_stem(name): name for name in self._names}

    def refusal(
        self,
        parts: "Sequence[str]",
        exists: "Exists",
        *,
        by_program: bool = False,
        replaces: bool = False,
    ) -> Refusal | None:
        """Return why the entry may not be created, changed, moved or removed; None if it may.

        Args:
            parts: Names from the root to the entry: its real path, without links.
            exists: Returns True if a path exists, even as a dangling link.
            by_program: True: git may be the one to change it, so data in a git folder may change.
            replaces: True: the change removes or overwrites an existing entry.
        """
        by_git = _Data(closed=not by_program, replaces=replaces)
        for depth, name in enumerate(parts):
            found = self._find_rule(name)
            if found is None:
                continue
            rule, entry = found
            if rule != "git":
                return Refusal(rule, entry)
            if not by_git.covers(parts[depth + 1 :]):
                return Refusal("git", "git")
        if self._home is not None and self._is_in_home(parts):
            return Refusal("home", "home")
        if self._files and self._is_named(parts):
            return Refusal("named", "named")
        if self._git and self._is_of_git_folder(parts, exists, by_git):
            return Refusal("git", "git")
        return None

    def git_folder(self, parts: "Sequence[str]", exists: "Exists") -> "tuple[str, ...] | None":
        """Return the innermost git folder around the entry; None if none or git is lifted."""
        if self._git:
            for depth in range(len(parts) - 1, -1, -1):
                folder = parts[:depth]
                if (folder and _normalize(folder[-1]) == ".git") or _is_git_folder(folder, exists):
                    return tuple(folder)
        return None

    def is_git(self, name: str) -> bool:
        """True if some file system treats `name` as ``.git``, even if git is lifted."""
        return _normalize(name) == ".git" or _is_short_name(
            _normalize(name), _short_name_stem(".git")
        )

    def _find_rule(self, name: str) -> "tuple[str, str] | None":
        folded = _normalize(name)
        found = self._names.get(folded)
        if found is not None:
            return found
        for suffix, row in self._suffixes.items():
            if folded.endswith(suffix):
                return row
        if "~" in folded:
            for stem, long in self._short.items():
                if _is_short_name(folded, stem):
                    return self._names[long]
        return None

    def _is_named(self, parts: "Sequence[str]") -> bool:
        folded = [_normalize(name) for name in parts]
        # Whichever is shorter: the entry is the file, lies beneath it, or is a folder above it.
        return any(
            all(
                part == name or _is_short_name(part, _short_name_stem(name))
                for part, name in zip(folded, file, strict=False)
            )
            for file in self._files
        )

    def _is_in_home(self, parts: "Sequence[str]") -> bool:
        home = self._home
        if home is None:
            return False
        if len(parts) <= len(home):
            # The home itself, or a folder above it: after a move, another could replace it.
            return tuple(parts) == home[: len(parts)]
        inner = parts[len(home)]
        return tuple(parts[: len(home)]) == home and (
            inner.startswith(".") or _normalize(inner) == "bin"
        )

    @staticmethod
    def _is_of_git_folder(parts: "Sequence[str]", exists: "Exists", by_git: "_Data") -> bool:
        in_git = False
        for depth, name in enumerate(parts):
            folder = parts[:depth]
            if folder and _normalize(folder[-1]) == ".git":
                in_git = True
            elif _is_git_folder(folder, exists):
                in_git = True
                if not by_git.covers(parts[depth:]):
                    return True
            elif _completes_git_folder(folder, name, exists, in_git=in_git):
                return True
        return False


# --- git folders --------------------------------------------------------------------------------

_DATA_FILES = frozenset({
    "HEAD", "index", "packed-refs", "packed-refs.new", "shallow", "gc.pid", "gc.log", "AUTO_MERGE",
    "COMMIT_EDITMSG", "TAG_EDITMSG", "SQUASH_MSG", "MERGE_MSG", "MERGE_MODE", "MERGE_AUTOSTASH",
})  # fmt: skip
_DATA_STARTS = ("index.", "next-index-", "BISECT_", "shallow_")
_DATA_INFO = frozenset({"exclude", "sparse-checkout", "refs"})
_FOLDERS = frozenset({
    "objects", "refs", "reftable", "logs", "info", "hooks", "modules", "worktrees", "branches",
    "remotes", "rr-cache",
})  # fmt: skip


class _Data:
    """Data that git writes into its folder when it records changes (gitrepository-layout(5)).

    This is an allow-list. `config`, `hooks`, `commondir`, `gitdir`, `info/attributes` and `remotes`
    name programs, or folders that do. Known to be as dangerous: the steps of a rebase contain
    commands, the options of a cherry-pick (`sequencer`) name the merge program, `MERGE_RR` names
    files to be written, and a shared index is trusted without validation.
    """

    __slots__ = ("closed", "replaces")

    def __init__(self, *, closed: bool, replaces: bool) -> None:
        self.closed = closed
        self.replaces = replaces

    def covers(self, parts: "Sequence[str]") -> bool:
        """True if the entry at `parts` beneath a git folder is such data."""
        if not parts or self.closed:
            return False
        first, rest = parts[0], parts[1:]
        if first == "worktrees":
            return self.covers(rest[1:])
        if first == "modules":
            return self._covers_module(rest)
        if first == "objects":
            return self._covers_object(rest)
        if first in ("refs", "reftable"):
            return True
        if first == "logs":
            return not rest or rest[0] == "refs" or tuple(rest) in (("HEAD",), ("HEAD.lock",))
        if first == "info":
            return len(rest) == 1 and (
                rest[0].removesuffix(".lock") in _DATA_INFO or rest[0].startswith("refs_")
            )
        name = first.removesuffix(".lock")
        known = name in _DATA_FILES or name.endswith("_HEAD") or name.startswith(_DATA_STARTS)
        return known and not rest

    def _covers_module(self, rest: "Sequence[str]") -> bool:
        # The depth of a submodule's name is unknown. None lies inside another (git's
        # validate_submodule_git_dir), so a name of git's own folders is not part of it.
        for depth in range(1, len(rest)):
            if rest[depth] in _FOLDERS or depth == len(rest) - 1:
                return self.covers(rest[depth:])
        return False

    def _covers_object(self, rest: "Sequence[str]") -> bool:
        if rest[:1] in (["info"], ("info",)):
            # Names another repository's objects, and git runs programs of that repository.
            return "alternates" not in rest[-1]
        # git does not verify on reading that an object matches its name.
        return not self.replaces or not _is_object(rest)


def _is_object(rest: "Sequence[str]") -> bool:
    """True for an object or a pack, and for a folder that may contain some."""
    if not rest or rest[0] == "pack":
        return len(rest) < 2 or rest[-1].startswith("pack-")
    return all(not name.strip("0123456789abcdef") for name in rest)


def _is_git_folder(folder: "Sequence[str]", exists: "Exists") -> bool:
    """True if git treats the folder as a repository under any name (is_git_directory, setup.c)."""
    if not exists((*folder, "HEAD")):
        return False
    if exists((*folder, "commondir")):
        return True
    return exists((*folder, "objects")) and exists((*folder, "refs"))


def _completes_git_folder(
    folder: "Sequence[str]", name: str, exists: "Exists", *, in_git: bool
) -> bool:
    """True if a new entry would be the second part of a git folder.

    No two parts may exist together, so that two concurrent changes cannot complete a git folder.
    """
    folded = _normalize(name)
    if folded not in ("head", "objects", "refs", "commondir") or exists((*folder, name)):
        return False
    if folded == "head":
        if name == "HEAD" and not in_git:
            return True
        return any(exists((*folder, part)) for part in ("objects", "refs", "commondir"))
    return exists((*folder, "HEAD"))


# --- spellings ----------------------------------------------------------------------------------

_IGNORED = (
    *((0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065)),
    *((0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF)),
)
"""Default_Ignorable_Code_Point of Unicode, first and last, except those of category Cf."""


def _normalize(name: str) -> str:
    """Normalize a name so that all its spellings become equal.

    Some file systems fold case and compositions and ignore invisible characters (ext4's casefold,
    APFS, HFS+); FAT and NTFS drop trailing dots and spaces, NTFS has streams after a colon.
    """
    if not name.isascii():
        from unicodedata import category, normalize

        decomposed = normalize("NFKD", normalize("NFKD", name).casefold())
        name = "".join(
            c
            for c in decomposed
            if category(c) != "Cf" and not any(first <= ord(c) <= last for first, last in _IGNORED)
        )
    if ":" in name:
        name = name.partition(":")[0]
    return name.casefold().rstrip(". ")


def _is_short_name(folded: str, stem: str) -> bool:
    """True for a short name of FAT and NTFS: `VSCODE~1` for `.vscode`."""
    return folded.startswith(f"{stem}~") and folded[len(stem) + 1 :][:1].isdigit()


def _short_name_stem(folded: str) -> str:
    base, dot, _ = folded.lstrip(".").rpartition(".")
    return (base if dot else folded.lstrip(".")).replace(".", "")[:6]
