# Attacks by files that a command plants for whoever uses the workspace afterwards.
#
# Each section is a shell script of its own, after this first part. It starts in a git repository;
# beside it are `main`, a second one with a submodule and a linked work tree, `tree`, and `bare.git`.
# $EVIL is a program that gives the attack away if anything starts it, $PY a Python, $HERE the root.

# A configuration with which `git status` starts $EVIL.
evil_config() { printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "%s; false"\n' "$EVIL"; }

# What a merge leaves behind: the user's next `git commit` writes the message.
evil_merge() { git rev-parse HEAD > .git/MERGE_HEAD; evil_config > .git/MERGE_MSG; }

# An index with one file, $EVIL, under a name that git itself would refuse.
evil_index() { "$PY" -c '
import hashlib, struct, subprocess, sys
path, evil = sys.argv[1].encode(), sys.argv[2]
run = subprocess.run(["git", "hash-object", "-w", evil], capture_output=True, check=True)
entry = struct.pack(">10I", 0, 0, 0, 0, 0, 0, 0o100755, 0, 0, 0) + bytes.fromhex(run.stdout.decode())
entry += struct.pack(">H", len(path)) + path
entry += bytes(8 - len(entry) % 8)
index = struct.pack(">4s2I", b"DIRC", 2, 1) + entry
sys.stdout.buffer.write(index + hashlib.sha1(index).digest())
' "$1" "$EVIL"; }

# --- the configuration ---

== overwrite
evil_config > .git/config

== append
printf "[core]\n\tfsmonitor = $EVIL\n" >> .git/config

== git-config
git config core.fsmonitor "$EVIL"

== git-config-worktree
git config extensions.worktreeConfig true
git config --worktree a.b c
evil_config > .git/config.worktree

== git-config-file
git config --file .git/config core.fsmonitor "$EVIL"

== dd
evil_config | dd of=.git/config conv=notrunc

== tee-a-read-only
chmod 666 .git/config
evil_config | tee .git/config

== sed-in-place
sed -i "s|.core.|[core]\n\tfsmonitor = $EVIL|" .git/config

== rename-over
evil_config > x
mv x .git/config

== rename-over-lock
evil_config > .git/config.lock
mv .git/config.lock .git/config

== exchange
evil_config > x
"$PY" -c "import ctypes; ctypes.CDLL(None).renameat2(-100, b'x', -100, b'.git/config', 2)"

== remove-and-make
rm .git/config
evil_config > .git/config

== hard-link
ln .git/config x && evil_config > x

== hard-link-elsewhere
ln .git/config $TMPDIR/x && evil_config > $TMPDIR/x

== symbolic-link
ln -s .git/config x
evil_config > x

== link-to-folder
ln -s .git x
evil_config > x/config

== link-of-links
ln -s .git x
ln -s x/../x y
evil_config > y/config

== dots
mkdir -p d
evil_config > d/../.git/./../.git//config

== absolute
evil_config > "$PWD/.git/config"

== by-proc
evil_config > /proc/self/cwd/.git/config

== by-proc-root
evil_config > "/proc/self/root$PWD/.git/config"

== by-descriptor
exec 5< .git/config
evil_config > /proc/self/fd/5

== by-dev-fd
exec 5< .git/config
evil_config > /dev/fd/5

== by-standard-input
evil_config | (cat > /dev/stdin) < .git/config

== from-inside
cd .git
evil_config > config

== from-inside-up
cd .git/objects
evil_config > ../config

== truncate
truncate -s 0 .git/config
truncate -s 5 .git/config

== truncate-while-reading
"$PY" -c "import os; os.open('.git/config', os.O_RDONLY | os.O_TRUNC)"

== mapped
"$PY" -c "import mmap,os; f=os.open('.git/config', os.O_RDWR); mmap.mmap(f, 0)[:6]=b'[evil]'"

== nameless
"$PY" -c "import os; f=os.open('.', os.O_TMPFILE|os.O_WRONLY); os.write(f, b'[x]');os.unlink('.git/config'); os.link(f'/proc/self/fd/{f}', '.git/config', follow_symlinks=True)"

== parent-renamed
mv .git x && evil_config > x/config && mv x .git

== grandparent-renamed
cd ..
B=$(basename "$OLDPWD")
mv $B moved
evil_config > moved/.git/config
mv moved $B

== parent-swapped
cp -r .git x
evil_config > x/config
rm -rf .git
mv x .git

== parent-exchanged
mkdir -p x
evil_config > x/config
"$PY" -c "import ctypes; ctypes.CDLL(None).renameat2(-100, b'x', -100, b'.git', 2)"

== other-case
evil_config > .GIT/config
mkdir .GIT
evil_config > .GIT/config

== other-unicode
mkdir $(printf '.g\342\200\215it') .git. git~1 '.git '

== opened-before
"$PY" -c "import os; d=os.open('.git', os.O_RDONLY); os.open('config', os.O_WRONLY|os.O_TRUNC, dir_fd=d)"

== stale-cwd
cd .git/refs
mkdir q
cd q
mv ../q ../../objects/
evil_config > ../../config

== mkdir-then-cd
mkdir d
cd d
mv ../d ../.git
evil_config > config
ls

== copy-range
"$PY" -c "import os; a=os.open('f',0); b=os.open('.git/config',2); os.sendfile(b,a,0,9)"

== openat2
"$PY" -c "import ctypes,struct; h=struct.pack('=3Q', 0o1001, 0, 0); print(ctypes.CDLL(None).syscall(437, -100, b'.git/config', h, 24))"
echo tried > .git/config

== fallocate
"$PY" -c "import os; os.posix_fallocate(os.open('.git/config',2),0,99)"

== creat
"$PY" -c "import ctypes; print(ctypes.CDLL(None).creat(b'.git/config', 0o644))"

== perl
perl -e 'open(F, ">", ".git/config"); print F "x"'

== tar
mkdir -p t/.git2
cp -r .git/. t/.git2
cd t
echo x > .git2/config
tar cf ../t.tar --transform 's/^.git2/.git/' .git2
cd ..
tar xf t.tar

# --- hooks and what else names programs ---

== hook
cp "$EVIL" .git/hooks/pre-commit
chmod +x .git/hooks/pre-commit

== hook-enabled
chmod +x .git/hooks/*.sample
mv .git/hooks/pre-commit.sample .git/hooks/pre-commit

== hooks-replaced
rm -rf .git/hooks
mkdir .git/hooks
cp "$EVIL" .git/hooks/post-checkout

== hooks-linked
mkdir h
cp "$EVIL" h/pre-commit
rm -rf .git/hooks
ln -s ../h .git/hooks

== hooks-moved-in
mkdir h
cp "$EVIL" h/pre-commit
mv .git/hooks old
mv h .git/hooks

== attributes
mkdir -p .git/info
echo '* filter=evil' > .git/info/attributes

== commondir
mkdir c
evil_config > c/config
cp -r .git/objects .git/refs c
echo ../c > .git/commondir

== git-file
mkdir g
cp -r .git/. g/
evil_config > g/config
rm -rf .git
echo 'gitdir: g' > .git

== git-link
cp -r .git g
evil_config > g/config
mv .git old
ln -s g .git

== rebase-todo
mkdir -p .git/rebase-merge
printf "exec $EVIL\n" > .git/rebase-merge/git-rebase-todo

== cherry-pick-strategy
mkdir .git/sequencer
printf "[options]\n\tstrategy = ../../evil\n" > .git/sequencer/opts

== remote
mkdir -p .git/remotes
printf "URL: ext::$EVIL\n" > .git/remotes/origin

== alternates
echo /elsewhere > .git/objects/info/alternates

== message-to-config
evil_merge
rm -f .git/COMMIT_EDITMSG
ln -s config .git/COMMIT_EDITMSG

== message-moved-in
evil_merge
ln -s config x
mv x .git/COMMIT_EDITMSG

== log-to-hook
ln -sf ../hooks/post-checkout .git/logs/HEAD

== links-moved-in
mkdir l
ln -s ../config l/HEAD
mv .git/logs old
mv l .git/logs

== message-hard-linked
evil_merge
ln -s config x
rm -f .git/COMMIT_EDITMSG
ln -P x .git/COMMIT_EDITMSG

== index-written
evil_index .git/hooks/post-checkout > .git/index

== index-made
rm .git/index
evil_index .git/hooks/post-checkout > .git/index

== index-moved
evil_index .git/hooks/post-checkout > x
mv x .git/index

== index-by-lock
evil_index .git/hooks/post-checkout > .git/index.lock
mv .git/index.lock .git/index

== index-outside
evil_index ../kept/.envrc > x
mv x .git/index

== index-linked
ln .git/index x
evil_index .git/hooks/post-checkout > x

== index-link-moved
evil_index .git/hooks/post-checkout > x
ln -s ../x y
mv y .git/index

== index-changed-after
evil_index .git/hooks/post-checkout > i
cp .git/index x
exec 5<> x
mv x .git/index
"$PY" -c "import os; d=open('i','rb').read(); os.ftruncate(5,len(d)); os.pwrite(5,d,0)"

== shared-index
cp .git/index .git/sharedindex.0123456789012345678901234567890123456789

== object-replaced
o=.git/objects/$(git rev-parse HEAD:f | sed 's|..|&/|')
"$PY" -c "import sys,zlib; sys.stdout.buffer.write(zlib.compress(b'blob 8\0tampered'))" > x
rm -f f
chmod u+w $o
cp x $o
mv -f x $o

== object-removed-and-made
o=.git/objects/$(git rev-parse HEAD:f | sed 's|..|&/|')
"$PY" -c "import sys,zlib; sys.stdout.buffer.write(zlib.compress(b'blob 8\0tampered'))" > x
rm -f f
rm -f $o
cp x $o

== object-linked
o=.git/objects/$(git rev-parse HEAD:f | sed 's|..|&/|')
"$PY" -c "import sys,zlib; sys.stdout.buffer.write(zlib.compress(b'blob 8\0tampered'))" > x
rm -f f
ln $o y
chmod u+w y
cp x y

== objects-swapped
o=$(git rev-parse HEAD:f | sed 's|..|&/|')
rm -f f
cp -r .git/objects o
chmod -R u+w o
"$PY" -c "import sys,zlib; sys.stdout.buffer.write(zlib.compress(b'blob 8\0tampered'))" > o/$o
mv .git/objects old
mv o .git/objects

# --- other repositories ---

== init
git init -q new && git -C new config core.fsmonitor "$EVIL"

== init-bare
git init -q --bare new && git -C new config core.fsmonitor "$EVIL"

== init-template
mkdir -p t/hooks
cp "$EVIL" t/hooks/post-checkout
git init -q --template=t new

== init-separate
git init -q --separate-git-dir=elsewhere new

== clone
git clone -q . new && git -C new config core.fsmonitor "$EVIL"

== worktree-add
git worktree add -q new

== by-hand
mkdir -p new/.git/objects new/.git/refs
evil_config > new/.git/config
echo 'ref: refs/heads/m' > new/.git/HEAD

== bare-by-hand
mkdir -p new/objects new/refs
echo 'ref: refs/heads/m' > new/HEAD
printf "[core]\n\tbare=false\n\tworktree=.\n\tfsmonitor=$EVIL\n" > new/config

== bare-other-order
mkdir new
echo 'ref: refs/heads/m' > new/x
mv new/x new/HEAD
mkdir new/refs new/objects
printf "[core]\n\tworktree=.\n\tfsmonitor=$EVIL\n" > new/config

== bare-commondir
mkdir -p new other/objects other/refs
echo 'ref: refs/heads/m' > new/HEAD
echo ../other > new/commondir
printf "[core]\n\tfsmonitor=$EVIL\n" > other/config

== bare-linked
mkdir new
ln -s ../.git/HEAD new/HEAD
ln -s ../.git/objects ../.git/refs new
printf "[core]\n\tworktree=.\n\tfsmonitor=$EVIL\n" > new/config

== bare-moved
cd $TMPDIR && git init -q --bare b && git -C b config core.worktree . && git -C b config core.fsmonitor "$EVIL"
mv b $OLDPWD/new
cp -r b $OLDPWD/new2

== dot-git-moved
cd $TMPDIR && git init -q r && git -C r config core.fsmonitor "$EVIL"
mv r $OLDPWD/new
cp -r r $OLDPWD/new2
mv r/.git $OLDPWD/new3/.git

== existing-bare
git -C ../bare.git config core.fsmonitor "$EVIL"
evil_config > ../bare.git/config
cp $EVIL ../bare.git/hooks/pre-receive

== existing-bare-assembled
mkdir new
mv ../bare.git/* new/
mv new/config c
cp c new/config

== existing-bare-apart
cd ../bare.git
rm -rf HEAD refs
evil_config > config
mkdir refs
echo 'ref: refs/heads/m' > HEAD
echo 'ref: refs/heads/m' > x
mv x HEAD
ln -s ../repo/.git/HEAD HEAD

== submodule-config
evil_config > ../main/.git/modules/lib/config
git -C ../main/lib config core.fsmonitor "$EVIL"

== submodule-hook
cp $EVIL ../main/.git/modules/lib/hooks/post-checkout

== submodule-file
echo 'gitdir: ../../x' > ../main/lib/.git

== submodule-folder-swapped
cd ../main/.git/modules
cp -r lib l2
evil_config > l2/config
mv lib l3
mv l2 lib

== worktree-gitdir
echo /x > ../main/.git/worktrees/tree/gitdir
echo ../../../../x > ../main/.git/worktrees/tree/commondir

== worktree-config
evil_config > ../main/.git/worktrees/tree/config.worktree

== nested-in-data
cd .git/refs
mkdir -p x/objects x/refs
evil_config > x/config
echo 'ref: refs/heads/m' > x/HEAD

== bare-in-logs
cd .git/logs
mkdir objects refs
echo 'ref: refs/heads/m' > HEAD
evil_config > config

# --- what other programs act on ---

== envrc
echo x > .envrc
echo x > new.txt
mv new.txt .envrc

== envrc-deep
mkdir -p a/b
echo x > a/b/.envrc

== vscode
mkdir -p .vscode
echo '{}' > .vscode/tasks.json

== vscode-moved
mkdir v
echo '{}' > v/tasks.json
mv v .vscode
mv -T v .vscode
ln -s v .vscode

== vscode-case
mkdir .VSCode
mv -T .VSCode .vscode

== workspace-file
echo '{}' > ours.code-workspace

== mcp
echo '{}' > .mcp.json

== claude
mkdir .claude
echo '{}' > .claude/settings.json

== idea
mkdir -p .idea/runConfigurations

== bashrc
touch .bashrc .profile .zshenv .zshrc

== husky
mkdir .husky
cp $EVIL .husky/pre-commit

== pre-commit
echo 'repos: []' > .pre-commit-config.yaml

== git-brings-it
echo x > e
git update-index --add --cacheinfo 100644,$(git hash-object -w e),.envrc
git commit -qm x
git checkout -q -- .envrc

== stash-brings-it
echo x > e
git update-index --add --cacheinfo 100644,$(git hash-object -w e),.envrc
git stash
git stash pop

== touch-exists
touch ../kept/.envrc
chmod +x ../kept/.envrc
rm ../kept/.envrc
echo x >> ../kept/.envrc
mv ../kept/.envrc x

== fifo
mkfifo .envrc
mknod .bashrc p

== folder-with-it
mkdir d
touch d/.envrc
mv d e

# --- the state of ptc ---

== state-made
mkdir -p .ptc
echo x > .ptc/journal.sqlite3

== state-changed
echo x > ../.ptc/artifacts/value.json
rm -rf ../.ptc
mv ../.ptc ../x
ln -s /tmp ../.ptc/artifacts/new
