"""Answers that did not end by themselves: lost on the connection, or cut by the token limit.

A lost answer is requested again. A cut one is requested with a higher token limit, if the caller
left `max_tokens` open; else a model that answers in text continues from the cut. All is bounded.
"""

from __future__ import annotations

import json
from dataclasses import replace

from ..errors import ModelError, TruncatedError
from ..models._model import ModelReply, ModelRequest, Turn
from ..structured import Accepted

__all__ = ["Interruptions"]

RESENDS = 2
"""Times a request is sent again after its answer was lost. If a provider answers with an error, its
own package retries, because it knows how long to wait."""
MAX_RAISES = 2
"""Times that the token limit is doubled."""
MIN_TOKENS = 4_096
"""Smallest raised limit. The default of several providers is below it."""
MAX_CONTINUATIONS = 4
"""Times that a model continues one answer."""
_MIN_OVERLAP, _MAX_OVERLAP = 12, 400
"""Characters that a model repeats before it continues; fewer may be equal by chance."""
_CONTINUE = (
    "Your answer was cut off by the token limit. Continue it exactly where it stopped, with the "
    "next character. Do not repeat anything, and add no introduction and no code block."
)
_HARMLESS = frozenset({"surrounding_text", "thinking"})


class Interruptions:
    """The lost and cut answers of one generation.

    Attributes:
        continuing: True if the next reply continues the last one.
    """

    def __init__(self) -> None:
        self.continuing = False
        self._tokens: int | None = None
        self._resends = RESENDS
        self._raises = 0
        self._continuations = 0
        self._text = ""
        self._cut: TruncatedError | None = None

    def join(self, reply: ModelReply) -> str:
        """Return the whole answer, of which `reply` may be the continuation."""
        if not self.continuing:
            return reply.answer
        more = reply.answer
        if _is_object(more):
            # The model started again.
            return more
        for size in range(min(_MAX_OVERLAP, len(more)), _MIN_OVERLAP - 1, -1):
            if self._text.endswith(more[:size]):
                return self._text + more[size:]
        return self._text + more

    def check(self, action: object, text: str) -> None:
        """Reject a joined answer that does not conform without repairs: its seam may be damaged.

        Raises:
            TruncatedError: If it does not.
        """
        joined, self.continuing = self.continuing, False
        fits = isinstance(action, Accepted) and all(r.kind in _HARMLESS for r in action.repairs)
        if joined and not fits:
            msg = "the answer was truncated, and its continuation does not fit; raise max_tokens"
            raise TruncatedError(msg, text=text)

    def widen(self, request: ModelRequest) -> ModelRequest:
        """Return `request` with the token limit as it was raised."""
        if self._tokens is None:
            return request
        return replace(request, settings={**request.settings, "max_tokens": self._tokens})

    def next_request(
        self,
        request: ModelRequest,
        reply: ModelReply | None,
        error: TruncatedError | ModelError,
        *,
        fixed: bool,
    ) -> ModelRequest:
        """Return the request to send after `error`.

        Args:
            request: The request that was interrupted.
            reply: Its reply, if there is one.
            error: The interruption.
            fixed: True if the caller set `max_tokens`.

        Raises:
            TruncatedError: If there is no more room.
            ModelError: If the request failed for another reason, or was lost too often.
        """
        if isinstance(error, ModelError):
            lost = error.lost
        else:
            lost = reply is not None and reply.finish is None
            if reply is not None and reply.finish == "length":
                self._cut = error
                if (more := self._ask_for_more(request, reply, fixed=fixed)) is not None:
                    return more
        if lost and self._resends:
            self._resends -= 1
            return request
        if isinstance(error, ModelError) and error.refused and self._cut is not None:
            # The provider allows no higher limit.
            raise self._cut from error
        if lost and isinstance(error, TruncatedError):
            msg = f"the connection broke {RESENDS + 1} times during the answer; try again later"
            raise ModelError(msg, retryable=True, lost=True) from error
        raise error

    def _ask_for_more(
        self, request: ModelRequest, reply: ModelReply, *, fixed: bool
    ) -> ModelRequest | None:
        if not fixed and self._raises < MAX_RAISES:
            self._raises += 1
            self._tokens = max(2 * reply.usage.output_tokens, MIN_TOKENS * self._raises)
            return self.widen(request)
        if not fixed or request.mode != "prompt" or self._continuations >= MAX_CONTINUATIONS:
            return None
        self._text = self.join(reply)
        self.continuing = True
        self._continuations += 1
        # One turn of the model with all of its text, however many continuations it took.
        turns = [*request.turns[: -2 if self._continuations > 1 else None]]
        turns += [Turn("model", self._text, _with_text(reply, self._text)), Turn("user", _CONTINUE)]
        return replace(request, turns=tuple(turns))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _with_text(reply: ModelReply, text: str) -> ModelReply:
    # Without the provider's own object, which has only the last part.
    return replace(reply, text=text, raw=None)
