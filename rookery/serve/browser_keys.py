"""The effect of each key and each typed line in the terminal browser.

The number of visible rows is known here, so that scrolling continues where the reader is; drawing
and reading the keyboard are done in `serve.cli.browse_command`.
"""

from collections.abc import Callable, Iterable
from functools import partial
from textwrap import dedent

from rookery.browse.browser import BrowserReply, BrowserRequest
from rookery.browse.page_text import neutralize_text
from rookery.browse.page_view import get_domain, truncate_line
from rookery.records import Failed, Quote
from rookery.serve import demonstration_commands
from rookery.serve.browser_session import (
    FIND_PREFIX,
    SEARCH_PREFIX,
    BrowserSession,
    SessionEvent,
    parse_typed_command,
    parse_typed_question,
)
from rookery.serve.terminal_text import QuoteSelection, TerminalPane, TerminalText

NOT_SAVED_HINT = "nothing is saved without a question; Esc goes back to reading"
HELP_TEXT = dedent(
    """\
    Keys, while the command line is empty

    / or s         search
    12 Enter       open link 12
    f, n           find on this page; find it again
    q or "         quote: choose a part of the text
    space, PgDn    read on, screen by screen
    b, PgUp        read backwards
    ↑ ↓            move by a line
    g, Home        to the top of the page
    ←, Backspace   back to the page before
    v              all quotes in full
    a              answer: reading ends, writing begins
    u              take the last command back
    Esc            leave off; stop waiting for a page
    Ctrl-C         leave

    While choosing a quote, ↓ ↑ go by sentences, → ← by words. Enter sets its start, then its end.

    Commands, as they are typed and stored (Tab completes)

    Search <query>             Scrolled down <1, 2, 3>
    Clicked on link <number>   Scrolled up <1, 2, 3>
    Find in page: <text>       Top
    Quote: <text>              Back
    End: Answer                End: <Nonsense, Controversial>

    A long quote may be typed as its beginning and its end with ━ between them."""
)
UNCHANGED_PRESSES = 2
"""rows that are still seen after scrolling by a screen"""


class BrowserControls:
    """A session in front of a person, who ends it by saving it, or leaves it.

    `keep` puts each event on disk and `save` the whole demonstration; a `Failed` of theirs is told.
    """

    def __init__(
        self,
        sitting: BrowserSession,
        keep: Callable[[SessionEvent], None] = lambda deed: None,
        save: Callable[[BrowserSession], None] = lambda sitting: None,
    ) -> None:
        self.sitting = sitting
        self._store, self._save = keep, save
        sitting.on_event = self._store_event
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
        self.marking: QuoteSelection | None = None
        self.pane = TerminalPane()
        """what is seen of the window"""
        self.overlay = TerminalPane()
        """what is seen of the help or of the quotes in full"""
        self._uncited = ""
        self._left_from = "browse"
        self._seen: object = None
        self._tops: dict[object, int] = {}
        self._update_mode()
        if not (sitting.task.question.text or sitting.last_command):
            self.mode = "ask"

    @property
    def pending_request(self) -> BrowserRequest | None:
        """The request that the library must answer now, for `accept_reply`, if there is one."""
        return None if self.mode == "ask" else self.sitting.pending_request

    @property
    def view(self) -> str:
        """Name of what fills the screen: page, help, quotes (all in full) or answer."""
        mode = self._left_from if self.mode == "leave" else self.mode
        if mode in ("help", "quotes", "answer"):
            return mode
        return "quotes" if self.sitting.observation.answering else "page"

    def list_highlights(self) -> list[demonstration_commands.Highlight]:
        """Return the page's quoted, found and marked spans with styles, most important last."""
        if self.mode == "mark" and self.marking:
            return [*self._highlights, ((self.marking.start, self.marking.end), "marked")]
        return self._highlights

    # Keys

    def press_key(self, key: str) -> bool:
        """Run the action of a key; False where the key has none and begins a typed command.

        While the library's reply is awaited, only up, down and escape do something.
        """
        self.note = ""
        if self.pending_request is not None and key not in ("up", "down", "escape"):
            return True
        if key == "escape":
            self.leave_mode()
        elif self.mode in ("help", "quotes"):
            self.turn_overlay(key)
        elif action := self._key_actions().get(key):
            action()
        else:
            return self.mode != "browse"
        return True

    def _key_actions(self) -> dict[str, Callable[[], object]]:
        if self.mode == "mark":
            return self._marking_actions()
        if self.mode == "leave":
            keep = partial(self._finish_leaving, "kept")
            drop = partial(self._finish_leaving, "dropped")
            return {"k": keep, "y": keep, "enter": keep, "d": drop, "n": drop}
        if self.mode == "end":
            return {"enter": self.finish_demonstration}
        if self.mode != "browse":
            return {}
        return {
            "/": partial(self._begin_typing, SEARCH_PREFIX),
            "s": partial(self._begin_typing, SEARCH_PREFIX),
            "f": partial(self._begin_typing, FIND_PREFIX),
            "n": self._find_again,
            "q": self._start_marking,
            '"': self._start_marking,
            " ": self._scroll_down,
            "pagedown": self._scroll_down,
            "b": self._scroll_up,
            "pageup": self._scroll_up,
            "g": self._go_to_top,
            "home": self._go_to_top,
            "end": lambda: self.pane.scroll_rows(self.pane.count_rows_below()),
            "up": partial(self.pane.scroll_rows, -1),
            "down": partial(self.pane.scroll_rows, 1),
            "backspace": partial(self._run_command, "Back"),
            "left": partial(self._run_command, "Back"),
            "a": partial(self._run_command, "End: Answer"),
            "u": self.undo_command,
            "?": partial(self._open_overlay, "help"),
            "v": partial(self._open_overlay, "quotes"),
        }

    def leave_mode(self) -> None:
        """Go back one step, as Esc does.

        That cancels the pending request, releases the start of the quote that is being chosen, or
        leaves the present mode; where browsing has ended, the command that ended it is undone.
        """
        if self.pending_request is not None:
            self.sitting.undo()
            self._update_mode("left off")
        elif self.mode == "mark" and self.marking and self.marking.start_fixed:
            self.marking.start_fixed = False
        elif self.mode == "leave":
            self.mode = self._left_from
        elif self.sitting.ending:
            self.undo_command()
        else:
            self.mode = "browse"

    def undo_command(self) -> None:
        """Undo the last command, show the page as it was before, and note what was undone."""
        last = self.sitting.last_command
        undone = self.sitting.undo()
        done = f"taken back: {truncate_line(last, 60)}"
        self._update_mode(done if undone else "there is nothing to take back", again=True)

    def ask_to_leave(self) -> None:
        """Handle Ctrl-C: ask whether to keep the session or drop it.

        A pending request is cancelled instead. An empty session is dropped at once, and one for
        which this was asked already is kept.
        """
        self.note = ""
        if self.pending_request is not None:
            self.leave_mode()
        elif not (self.sitting.last_command or self.sitting.draft):
            self.left = "dropped"
        elif self.mode == "leave":
            self.left = "kept"
        else:
            self._left_from, self.mode = self.mode, "leave"

    def enter_line(self, line: str) -> bool:
        """Run a typed line as a command, or take it as the question in the mode ask.

        False if it did nothing and can be corrected; `note` says why.
        """
        self.note = ""
        if self.mode == "ask":
            return self._enter_question(line)
        if not line.strip():
            return True
        if self.sitting.pending_request is not None:
            self.note = "wait for the page, or leave off with Esc"
            return False
        command = parse_typed_command(line)
        if command is None:
            self.note = "this is no command: Tab completes one, ? shows them all"
            return False
        return self._run_command(command)

    def accept_reply(self, errand: int, reply: BrowserReply) -> None:
        """Pass the library's reply to the session, if request number `errand` is still pending."""
        if errand == self.errand and self.sitting.pending_request is not None:
            self.sitting.accept_reply(reply)
            self._update_mode(self.sitting.observation.note)

    def finish_demonstration(self, text: str = "") -> None:
        """Save the demonstration, in the mode answer with this answer; otherwise note why not.

        An answer that cites no quote is refused once, and saved when it comes again.
        """
        self.note = ""
        if self.mode == "answer":
            self.sitting.save_draft(text.strip())
            self.note = self._find_answer_fault()
        if self.note:
            return
        try:
            self._save(self.sitting)
        except Failed as failed:
            self.note = f"not saved: {failed.failure.detail or failed.failure.outcome}"
        else:
            self.left = "saved"

    def _find_answer_fault(self) -> str:
        """Return why the answer cannot be saved as it is; empty if it can."""
        text = self.sitting.draft
        for lint in demonstration_commands.lint_answer(self.sitting, text):
            if lint.bars:
                return lint.sentence
            if lint.sentence == demonstration_commands.UNCITED and self._uncited != text:
                self._uncited = text
                return f"{lint.sentence}; or save once more as it is"
        return ""

    def _enter_question(self, line: str) -> bool:
        """Take the question. At the beginning there may be none: then this is just reading."""
        if not (self.sitting.ending or line.strip()):
            self._update_mode()
            return True
        try:
            question = parse_typed_question(line)
        except ValueError as error:
            self.note = str(error) if line.strip() else NOT_SAVED_HINT
            return False
        if not self.sitting.change_question(question):
            self.note = "pages that you read hold this very question: use other words"
            return False
        self._update_mode()
        return True

    # Commands

    def _run_command(self, command: str) -> bool:
        """Say a command. One that did nothing is told, and not stored: False."""
        note = demonstration_commands.run_browser_command(self.sitting, command)
        self._update_mode(note or self.sitting.observation.note, again=command == "Back")
        return not note

    def _update_mode(self, note: str = "", again: bool = False) -> None:
        """Update mode and note for the session's state; `again` is set if it was shown before."""
        self.note = note
        self.marking = None
        self._update_view(again)
        if self.sitting.pending_request is not None:
            self.errand += 1
            self.mode = "browse"
        elif not self.sitting.ending:
            self.mode = "browse"
        elif not self.sitting.task.question.text:
            self.mode = "ask"
        else:
            self.mode = "answer" if self.sitting.observation.answering else "end"
        if self.sitting.observation.answering:
            quotes = format_quotes(self.sitting.observation.quotes)
            self.overlay.show_window(TerminalText(quotes))

    def _begin_typing(self, verb: str) -> None:
        self.prefill = verb

    def _find_again(self) -> None:
        if self.sitting.last_find:
            self._run_command(self.sitting.last_find)
        else:
            self.note = "find something first, with f"

    def _scroll_down(self) -> None:
        if self.pane.count_rows_below():
            self.pane.scroll_rows(max(1, self.pane.height - UNCHANGED_PRESSES))
        else:
            self._run_command("Scrolled down 1")

    def _scroll_up(self) -> None:
        if self.pane.top:
            self.pane.scroll_rows(-max(1, self.pane.height - UNCHANGED_PRESSES))
        elif self._run_command("Scrolled up 1"):
            self.pane.scroll_rows(self.pane.count_rows_below())

    def _go_to_top(self) -> None:
        if self.sitting.observation.scrollbar[0]:
            self._run_command("Top")
        self.pane.scroll_rows(-self.pane.top)

    # Quoting

    def _start_marking(self) -> None:
        view = self.sitting.find_shown_view()
        words = demonstration_commands.list_quotable_words(self.sitting)
        if view is None:
            self.note = demonstration_commands.ONLY_PAGES
        elif not words:
            self.note = "there are no words to quote here"
        else:
            sentences = demonstration_commands.list_quotable_spans(self.sitting)
            after = self.pane.get_top_place()
            self.marking = QuoteSelection(view.page.text, sentences, words, after)
            self.mode = "mark"

    def _marking_actions(self) -> dict[str, Callable[[], object]]:
        return {
            "down": partial(self._move_mark, QuoteSelection.move_by_sentence, True),
            " ": partial(self._move_mark, QuoteSelection.move_by_sentence, True),
            "up": partial(self._move_mark, QuoteSelection.move_by_sentence, False),
            "right": partial(self._move_mark, QuoteSelection.move_by_word, True),
            "left": partial(self._move_mark, QuoteSelection.move_by_word, False),
            "enter": self._fix_mark,
            "q": self.leave_mode,
        }

    def _move_mark(self, move: Callable[[QuoteSelection, bool], None], forward: bool) -> None:
        assert self.marking is not None
        move(self.marking, forward)
        self.pane.scroll_to_place(
            self.marking.end - 1 if self.marking.start_fixed else self.marking.start
        )

    def _fix_mark(self) -> None:
        assert self.marking is not None
        if not self.marking.start_fixed:
            self.marking.start_fixed = True
            return
        span = self.marking.start, self.marking.end
        note = demonstration_commands.quote_window_span(self.sitting, *span, anywhere=True)
        self._update_mode(note)

    def _update_view(self, again: bool) -> None:
        """Take in what the session shows; where it was left, if it was here before."""
        shown, view = self.sitting.observation, self.sitting.find_shown_view()
        seen = (shown.title, shown.digest, shown.start, shown.text)
        if seen != self._seen:
            self._tops[self._seen] = self.pane.top
            self._seen = seen
            parts = view.iter_parts(shown.start) if view else ()
            self.pane.show_window(TerminalText(shown.text, parts))
            self.pane.scroll_rows(self._tops.get(seen, 0) if again else 0)
        self._highlights = demonstration_commands.list_highlights(self.sitting)
        found = [span for span, style in self._highlights if style == "found"]
        if found:
            self.pane.scroll_to_place(found[0][0])

    def _open_overlay(self, mode: str) -> None:
        if mode == "quotes" and not self.sitting.observation.quotes:
            self.note = "nothing is quoted yet: q chooses what to quote"
            return
        self.mode = mode
        text = HELP_TEXT if mode == "help" else format_quotes(self.sitting.observation.quotes)
        self.overlay.show_window(TerminalText(text))

    def turn_overlay(self, key: str) -> None:
        """Scroll the help or the quotes in full; any other key closes them.

        In the mode answer nothing closes the quotes.
        """
        page = max(self.overlay.height // 2, 1)
        steps = {"down": 1, " ": page, "pagedown": page, "up": -1, "b": -page, "pageup": -page}
        if key in steps:
            self.overlay.scroll_rows(steps[key])
        elif self.mode != "answer":
            self.mode = "browse"

    def _finish_leaving(self, how: str) -> None:
        self.left = how

    def _store_event(self, deed: SessionEvent) -> None:
        try:
            self._store(deed)
        except Failed as failed:
            why = failed.failure.detail or failed.failure.outcome
            self.trouble = f"what you do is not kept on disk: {why}"
        else:
            self.trouble = ""


def format_quotes(quotes: Iterable[Quote]) -> str:
    """Return all quotes in full, each below a line 【number† title†domain】."""
    return "\n\n".join(
        f"【{number}† {neutralize_text(' '.join(quote.title.split()))}†{get_domain(quote.url)}】\n"
        + neutralize_text(quote.text)
        for number, quote in enumerate(quotes, 1)
    )
