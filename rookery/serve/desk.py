"""What each key and each typed line does to a sitting at the text browser.

It knows how much can be seen, so that scrolling goes on where the eye is; it draws nothing, reads
no keyboard and waits for nobody.
"""

from collections.abc import Callable
from functools import partial

from rookery.browse.browser import Reply, Request
from rookery.browse.commands import parse
from rookery.browse.find import Span
from rookery.browse.pages import cut
from rookery.cite.syntax import BadSyntax, parse_numbered
from rookery.records import Failed
from rookery.serve.marking import Marking
from rookery.serve.shown import Pane, Shown
from rookery.serve.sitting import Deed, Sitting
from rookery.serve.typed import FIND, SEARCH, command_of, question_of

NOT_SAVED = "nothing is saved without a question; Esc goes back to reading"
IN_PARTS = "the page holds more between these words than it shows: quote them in parts"
NO_ROOM = "there is room for {} more characters of quotes: quote less, or answer with a"
STILL = 2
"""rows that are still seen after scrolling by a screen"""


class Desk:
    """A sitting in front of a person, who ends it by saving it, or leaves it.

    `keep` puts each deed on disk and `save` the whole demonstration; a `Failed` of theirs is told.
    """

    def __init__(
        self,
        sitting: Sitting,
        keep: Callable[[Deed], None] = lambda deed: None,
        save: Callable[[Sitting], None] = lambda sitting: None,
    ) -> None:
        self.sitting = sitting
        self._store, self._save = keep, save
        sitting.keep = self._keep
        self.mode = "browse"
        """browse, mark (what to quote), help, quotes (in full), ask (for the question, at the
        end), answer, end (without an answer) or leave"""
        self.note = ""
        """what the last key or line did or could not do"""
        self.trouble = ""
        """why what is done is not kept on disk, if it is not"""
        self.prefill: str | None = None
        """what is to stand in the command line now"""
        self.errand = 0
        """counts what is wanted from the library, so that what comes too late is known"""
        self.left = ""
        """how it was ended: saved, kept (to go on later) or dropped; empty: it goes on"""
        self.marking: Marking | None = None
        self.pane = Pane()
        """what is seen of the window"""
        self.over = 0
        """the row of the help, or of the quotes in full, that is seen first"""
        self._uncited = ""
        self._left_from = "browse"
        self._seen: object = None
        self._tops: dict[object, int] = {}
        self._settle()
        if not (sitting.task.question.text or sitting.last):
            self.mode = "ask"

    @property
    def ending(self) -> bool:
        """Whether browsing has ended, and an answer or an end without one is to be saved."""
        return self.sitting.shown.answering or self.sitting.browsed is not None

    @property
    def awaited(self) -> Request | None:
        """What is to be asked of the library now, for `arrived` to be told."""
        return None if self.mode == "ask" else self.sitting.wanted

    @property
    def view(self) -> str:
        """What fills the screen: page, help, quotes (all of them in full) or answer."""
        mode = self._left_from if self.mode == "leave" else self.mode
        if mode in ("help", "quotes", "answer"):
            return mode
        return "quotes" if self.sitting.shown.answering else "page"

    def highlights(self) -> list[tuple[Span, str]]:
        """What is quoted, found and marked in the shown text, the most important last."""
        if self.mode == "mark" and self.marking:
            return [*self._highlights, ((self.marking.start, self.marking.end), "marked")]
        return self._highlights

    # Keys

    def press(self, key: str) -> bool:
        """Does what a key does while nothing is being typed; False where it begins a command."""
        self.note = ""
        if self.awaited is not None and key not in ("up", "down", "escape"):
            return True
        if key == "escape":
            self.escape()
        elif self.mode in ("help", "quotes"):
            self.turn(key)
        elif action := self._actions().get(key):
            action()
        else:
            return self.mode != "browse"
        return True

    def _actions(self) -> dict[str, Callable[[], object]]:
        if self.mode == "mark":
            return self._marking_actions()
        if self.mode == "leave":
            keep, drop = partial(self._leave, "kept"), partial(self._leave, "dropped")
            return {"k": keep, "y": keep, "enter": keep, "d": drop, "n": drop}
        if self.mode == "end":
            return {"enter": self.finish}
        if self.mode != "browse":
            return {}
        return {
            "/": partial(self._begin, SEARCH),
            "s": partial(self._begin, SEARCH),
            "f": partial(self._begin, FIND),
            "n": self._find_again,
            "q": self._mark,
            '"': self._mark,
            " ": self._forward,
            "pagedown": self._forward,
            "b": self._backward,
            "pageup": self._backward,
            "g": self._to_top,
            "home": self._to_top,
            "end": lambda: self.pane.scroll(self.pane.below()),
            "up": partial(self.pane.scroll, -1),
            "down": partial(self.pane.scroll, 1),
            "backspace": partial(self._do, "Back"),
            "left": partial(self._do, "Back"),
            "a": partial(self._do, "End: Answer"),
            "u": self.undo,
            "?": partial(self._open, "help"),
            "v": partial(self._open, "quotes"),
        }

    def escape(self) -> None:
        """Leaves off what was begun last."""
        if self.awaited is not None:
            self.sitting.undo()
            self._settle("left off")
        elif self.mode == "mark" and self.marking and self.marking.fixed:
            self.marking.loosen()
        elif self.mode == "leave":
            self.mode = self._left_from
        elif self.ending:
            self.undo()
        else:
            self.mode = "browse"

    def undo(self) -> None:
        """Takes the last command back."""
        last = self.sitting.last
        undone = self.sitting.undo()
        note = f"taken back: {cut(last, 60)}" if undone else "there is nothing to take back"
        self._settle(note, again=True)

    def leave(self) -> None:
        """Asks what is to become of what was done; leaves at once where nothing was, and leaves
        off what is being waited for."""
        self.note = ""
        if self.awaited is not None:
            self.escape()
        elif not (self.sitting.last or self.sitting.draft):
            self.left = "dropped"
        elif self.mode == "leave":
            self.left = "kept"
        else:
            self._left_from, self.mode = self.mode, "leave"

    def enter(self, line: str) -> bool:
        """Takes a typed line. False: it did nothing and can be mended, and `note` says why."""
        self.note = ""
        if self.mode == "ask":
            return self._ask(line)
        if not line.strip():
            return True
        if self.sitting.wanted is not None:
            self.note = "wait for the page, or leave off with Esc"
            return False
        command = command_of(line)
        if command is None:
            self.note = "this is no command: Tab completes one, ? shows them all"
            return False
        return self._do(command)

    def arrived(self, errand: int, reply: Reply) -> None:
        """Takes what the library gave, unless it was not waited for."""
        if errand == self.errand and self.sitting.wanted is not None:
            self.sitting.reply(reply)
            self._settle(self.sitting.shown.note)

    def finish(self, text: str = "") -> None:
        """Saves the demonstration with this answer, if there is to be one; else says why not."""
        self.note = ""
        if self.mode == "answer":
            self.sitting.write(text.strip())
            self.note = self._complaint()
        if self.note:
            return
        try:
            self._save(self.sitting)
        except Failed as failed:
            self.note = f"not saved: {failed.failure.detail or failed.failure.outcome}"
        else:
            self.left = "saved"

    def _complaint(self) -> str:
        """Why the answer is not to be saved as it is."""
        text = self.sitting.draft
        if not text:
            return "there is no answer yet: write one, or go back with Esc"
        try:
            answer = parse_numbered(text, self.sitting.shown.quotes)
        except BadSyntax as error:
            return f"the answer {error}"
        if answer.claims or self._uncited == text:
            return ""
        self._uncited = text
        return "no quote is cited: write [1] behind what quote 1 says; or save once more as it is"

    def _ask(self, line: str) -> bool:
        """Takes the question. At the beginning there may be none: then this is just reading."""
        if not (self.ending or line.strip()):
            self._settle()
            return True
        try:
            question = question_of(line)
        except ValueError as error:
            self.note = str(error) if line.strip() else NOT_SAVED
            return False
        if not self.sitting.ask(question):
            self.note = "pages that you read hold this very question: use other words"
            return False
        self._settle()
        return True

    # Commands

    def _do(self, command: str) -> bool:
        """Says a command. One that did nothing is told, and not stored: False."""
        before = self.sitting.shown
        if command == "End: Answer" and not before.quotes:
            self.note = "quote something first, with q: an answer rests on quotes"
            return False
        self.sitting.say(command)
        after = self.sitting.shown
        done = self.sitting.wanted or self.ending or after.past != before.past
        if not done:
            self.sitting.undo()
        self._settle(after.note, again=command == "Back")
        return bool(done)

    def _settle(self, note: str = "", again: bool = False) -> None:
        """What follows from where the sitting is now; `again`: it was here before."""
        self.note = note
        self.marking = None
        self._look(again)
        if self.sitting.wanted is not None:
            self.errand += 1
            self.mode = "browse"
        elif not self.ending:
            self.mode = "browse"
        elif not self.sitting.task.question.text:
            self.mode = "ask"
        else:
            self.mode = "answer" if self.sitting.shown.answering else "end"

    def _begin(self, verb: str) -> None:
        self.prefill = verb

    def _find_again(self) -> None:
        finds = [said for said in self.sitting.commands if said.startswith(FIND)]
        if finds:
            self._do(finds[-1])
        else:
            self.note = "find something first, with f"

    def _forward(self) -> None:
        if self.pane.below():
            self.pane.scroll(max(1, self.pane.height - STILL))
        elif self.sitting.shown.scrollbar[1] < 100:
            self._do("Scrolled down 1")
        else:
            self.note = "this is the end of the page"

    def _backward(self) -> None:
        if self.pane.top:
            self.pane.scroll(-max(1, self.pane.height - STILL))
        elif self.sitting.shown.scrollbar[0]:
            self._do("Scrolled up 1")
            self.pane.scroll(self.pane.below())
        else:
            self.note = "this is the top of the page"

    def _to_top(self) -> None:
        if self.sitting.shown.scrollbar[0]:
            self._do("Top")
        self.pane.scroll(-self.pane.top)

    # Quoting

    def _mark(self) -> None:
        if not self.sitting.quotable:
            self.note = "only a page that was opened can be quoted: click on a link first"
            return
        if not self.pane.window.plain.strip():
            self.note = "there are no words to quote here"
            return
        self.marking = Marking(self.pane.window, self.pane.place())
        self.mode = "mark"

    def _marking_actions(self) -> dict[str, Callable[[], object]]:
        return {
            "down": partial(self._move, Marking.sentence, True),
            " ": partial(self._move, Marking.sentence, True),
            "up": partial(self._move, Marking.sentence, False),
            "right": partial(self._move, Marking.word, True),
            "left": partial(self._move, Marking.word, False),
            "enter": self._fix,
            "q": self.escape,
        }

    def _move(self, move: Callable[[Marking, bool], None], forward: bool) -> None:
        assert self.marking is not None
        move(self.marking, forward)
        self.pane.show(self.marking.end - 1 if self.marking.fixed else self.marking.start)

    def _fix(self) -> None:
        assert self.marking is not None
        if self.marking.fixed:
            self._quote(self.marking)
        else:
            self.marking.fix()

    def _quote(self, marking: Marking) -> None:
        before = self.sitting.shown.quotes
        for command in filter(parse, marking.commands()):
            self._do(command)
            quotes = self.sitting.shown.quotes
            if len(quotes) > len(before) and marking.names(quotes[-1]):
                return
            if self.ending or len(quotes) > len(before):
                self.sitting.undo()  # too long, or words that begin and end alike elsewhere
        room = self.sitting.task.rules.quoted - sum(len(quote.text) for quote in before)
        why = IN_PARTS if len(marking.text) <= room else NO_ROOM.format(room)
        self._settle(self.note if any(map(marking.names, before)) else why)

    def _look(self, again: bool) -> None:
        """Takes in what the sitting shows; where it was left, if it was here before."""
        shown = self.sitting.shown
        seen = (shown.title, shown.digest, shown.start, shown.text)
        if seen != self._seen:
            self._tops[self._seen] = self.pane.top
            self._seen = seen
            self.pane.put(Shown(shown.text))
            self.pane.scroll(self._tops.get(seen, 0) if again else 0)
        window = self.pane.window
        quoted = [quote.text for quote in shown.quotes if quote.digest == shown.digest]
        spans = [span for text in quoted for span in window.places(text, spaced=False)]
        self._highlights = [(span, "quoted") for span in spans]
        if self.sitting.last.startswith(FIND):
            found = window.places(self.sitting.last.removeprefix(FIND), spaced=True)
            self._highlights += [(span, "found") for span in found]
            if found:
                self.pane.show(found[0][0])

    def _open(self, mode: str) -> None:
        if mode == "quotes" and not self.sitting.shown.quotes:
            self.note = "nothing is quoted yet: q chooses what to quote"
            return
        self.mode, self.over = mode, 0

    def turn(self, key: str) -> None:
        """Reads on in the help or the quotes in full; any other key closes them."""
        page = max(self.pane.height // 2, 1)
        steps = {"down": 1, " ": page, "pagedown": page, "up": -1, "b": -page, "pageup": -page}
        if key in steps:
            self.over = max(0, self.over + steps[key])
        elif self.mode != "answer":
            self.mode = "browse"

    def _leave(self, how: str) -> None:
        self.left = how

    def _keep(self, deed: Deed) -> None:
        try:
            self._store(deed)
        except Failed as failed:
            why = failed.failure.detail or failed.failure.outcome
            self.trouble = f"what you do is not kept on disk: {why}"
        else:
            self.trouble = ""
