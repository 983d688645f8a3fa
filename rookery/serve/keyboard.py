"""The text browser in a terminal: keys go to the desk, and the screen shows what it has become.

It knows neither commands nor pages. Searches and pages are waited for in threads of their own, so
that the screen never stands still.
"""

import asyncio
import re
import signal
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.containers import (
    DynamicContainer,
    Float,
    FloatContainer,
    HSplit,
    Window,
)
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.layout import Layout
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from rookery.browse.browser import Request, answered
from rookery.records import Library
from rookery.serve.desk import Desk
from rookery.serve.screen import STYLES, Frame, Line, frame, prompt
from rookery.serve.terminal import clean
from rookery.serve.typed import completions, edited

TICK = 0.1
"""seconds between two pictures of what is awaited"""
DRAFTED = 5
"""ticks after which what is written of an answer is kept on disk"""
ESCAPE = 0.05
"""seconds after which an escape is the key itself, and not the beginning of another one"""
_SPECIAL = (
    "up", "down", "left", "right", "home", "end", "pageup", "pagedown", "enter", "backspace",
)  # fmt: skip


def run(desk: Desk, library: Library) -> int:
    """Lets a person work at the desk until it is left; the number of the signal that ended it,
    or 0. Whatever happens, the terminal is as it was before."""
    with _handled(signal.SIGTERM):
        return _Terminal(desk, library).run()


class _Terminal:
    """The screen, the typed line and the answer's editor."""

    def __init__(self, desk: Desk, library: Library) -> None:
        self._desk = desk
        self._library = library
        self._errand = 0
        self._erasing = False
        self._answering = False
        self._frame = Frame([], 1, [])
        self._line = Buffer(
            completer=_Commands(),
            complete_while_typing=False,
            multiline=False,
            accept_handler=lambda buffer: not desk.enter(buffer.text),
            on_text_changed=self._mend,
        )
        self._answer = Buffer(multiline=True)
        self._typed_line = Window(
            BufferControl(self._line),
            height=lambda: Dimension.exact(self._frame.typed),
            wrap_lines=True,
            get_line_prefix=lambda number, wrapped: "" if wrapped else prompt(desk),
        )
        self._editor = Window(
            BufferControl(self._answer, input_processors=[_WordWrap()]),
            height=lambda: Dimension.exact(self._frame.typed),
            wrap_lines=True,
        )
        self._app: Application[int] = Application(
            Layout(self._everything(), self._typed()),
            style=Style.from_dict(STYLES),
            key_bindings=self._bindings(),
            full_screen=True,
        )
        self._app.ttimeoutlen = ESCAPE
        self._app.before_render += lambda _: self._draw()
        self._app.key_processor.after_key_press += lambda _: self._follow()

    def run(self) -> int:
        """Until the desk is left, or a signal comes."""
        try:
            return self._app.run(self._begin, set_exception_handler=False)
        except EOFError:  # the terminal is gone
            self._desk.left = self._desk.left or "kept"
            return 0

    def _everything(self) -> FloatContainer:
        menu = Float(CompletionsMenu(max_height=12, scroll_offset=1), xcursor=True, ycursor=True)
        above = FormattedTextControl(lambda: _joined(self._frame.above))
        below = FormattedTextControl(lambda: _joined(self._frame.below))
        return FloatContainer(
            HSplit(
                [
                    Window(above, height=lambda: _as_much_as(self._frame.above)),
                    DynamicContainer(self._typed),
                    Window(below, height=lambda: _as_much_as(self._frame.below)),
                ]
            ),
            [menu],
        )

    def _typed(self) -> Window:
        return self._editor if self._desk.view == "answer" else self._typed_line

    # What is seen

    def _draw(self) -> None:
        size = self._app.output.get_size()
        now = time.monotonic()
        self._frame = frame(self._desk, size.columns, size.rows, self._line.text, now)

    # What follows from a key

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._fail)
        with suppress(NotImplementedError):  # where there are no such signals
            loop.add_signal_handler(signal.SIGTERM, self._end, signal.SIGTERM)
        self._app.create_background_task(self._tick())
        self._follow()

    def _follow(self) -> None:
        """Does what the desk asks for."""
        desk = self._desk
        if desk.prefill is not None:
            self._line.document = Document(desk.prefill)
            desk.prefill = None
        if desk.view == "answer" and not self._answering:
            self._answer.document = Document(desk.sitting.draft)
        self._answering = desk.view == "answer"
        self._app.layout.focus(self._typed())
        if desk.awaited is not None and desk.errand != self._errand:
            self._errand = desk.errand
            self._send(desk.errand, desk.awaited)
        if desk.left:
            self._end(0)
        self._app.invalidate()

    def _send(self, errand: int, request: Request) -> None:
        """Asks the library in a thread that is not waited for at the end."""
        loop = asyncio.get_running_loop()

        def ask() -> None:
            reply = answered(self._library, request)
            with suppress(RuntimeError):  # nobody is there any more
                loop.call_soon_threadsafe(arrive, reply)

        def arrive(reply: Any) -> None:
            self._desk.arrived(errand, reply)
            self._follow()

        threading.Thread(target=ask, name=f"errand {errand}", daemon=True).start()

    async def _tick(self) -> None:
        ticks = 0
        while True:
            await asyncio.sleep(TICK)
            ticks += 1
            if self._desk.sitting.wanted is not None:
                self._app.invalidate()
            if ticks % DRAFTED == 0:
                self._keep_draft()

    def _keep_draft(self) -> None:
        if self._answering:
            self._desk.sitting.write(self._answer.text)

    def _end(self, number: int) -> None:
        self._keep_draft()
        with suppress(Exception):  # it is being ended already
            self._app.exit(result=number)

    def _fail(self, _: object, context: dict[str, Any]) -> None:
        error = context.get("exception") or RuntimeError(context["message"])
        with suppress(Exception):  # it is being ended already
            self._app.exit(exception=error)

    def _mend(self, buffer: Buffer) -> None:
        """Pasted text becomes one clean line."""
        text = edited(re.sub(r"[\n\t]", " ", clean(buffer.text)))
        if text != buffer.text:
            buffer.document = Document(text)

    # Keys

    def _bindings(self) -> KeyBindings:
        desk, bindings = self._desk, KeyBindings()
        typing = Condition(
            lambda: desk.mode == "ask" or (desk.mode == "browse" and self._is_line())
        )
        answering = Condition(lambda: desk.mode == "answer")
        pressing = ~typing & ~answering
        choosing = Condition(lambda: self._line.complete_state is not None)
        add = bindings.add
        for key in _SPECIAL:
            add(key, filter=pressing)(self._pressed(key))
        for key in ("up", "down", "pageup", "pagedown"):
            add(key, filter=typing & ~choosing)(self._pressed(key))
        for key in ("pageup", "pagedown"):
            add(key, filter=answering)(lambda event, key=key: desk.turn(key))
        add(Keys.Any, filter=pressing)(self._letter)
        add("backspace", filter=typing)(self._erase)
        add("escape", eager=True)(self._escape)
        add("c-c")(self._leave)
        add("<sigint>")(self._leave)
        add("c-d", filter=pressing)(self._leave)
        add("c-l")(lambda event: event.app.renderer.clear())
        add("c-z")(lambda event: event.app.suspend_to_background())
        add("c-s", filter=answering)(lambda event: desk.finish(self._answer.text))
        add("tab", filter=typing | pressing)(self._complete)
        add("tab", filter=answering)(lambda event: None)
        return bindings

    def _is_line(self) -> bool:
        return bool(self._line.text)

    def _pressed(self, key: str) -> Callable[[KeyPressEvent], None]:
        def press(event: KeyPressEvent) -> None:
            # Who erases a line does not mean to go back with the last stroke.
            if not (key == "backspace" and self._erasing):
                self._erasing = False
                self._desk.press(key)

        return press

    def _letter(self, event: KeyPressEvent) -> None:
        self._erasing = False
        begins = not self._desk.press(event.data) and self._desk.mode == "browse"
        if begins and event.data.isprintable():
            self._line.insert_text(event.data)

    def _erase(self, event: KeyPressEvent) -> None:
        self._erasing = True
        self._line.delete_before_cursor()

    def _escape(self, event: KeyPressEvent) -> None:
        self._keep_draft()
        if not (self._desk.mode == "browse" and self._is_line()):
            self._desk.press("escape")
        self._line.reset()

    def _leave(self, event: KeyPressEvent) -> None:
        self._keep_draft()
        self._line.reset()
        self._desk.leave()

    def _complete(self, event: KeyPressEvent) -> None:
        if self._desk.mode == "browse" and not self._desk.sitting.wanted:
            if self._line.complete_state:
                self._line.complete_next()
            else:
                self._line.start_completion(insert_common_part=True)


def _joined(lines: list[Line]) -> FormattedText:
    return FormattedText([part for line in lines for part in (*line, ("", "\n"))][:-1])


def _as_much_as(lines: list[Line]) -> Dimension:
    return Dimension(min=0, max=len(lines), preferred=len(lines))


@contextmanager
def _handled(number: signal.Signals) -> Iterator[None]:
    """What handled this signal before handles it again afterwards."""
    before = signal.getsignal(number)
    try:
        yield
    finally:
        signal.signal(number, before)


class _Commands(Completer):
    """The commands that can be typed."""

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        line = document.text_before_cursor
        return (Completion(verb, -len(line)) for verb in completions(line))


class _WordWrap(Processor):
    """Fills the end of a row with spaces where the next word does not fit there."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        text = "".join(fragment[1] for fragment in transformation_input.fragments)
        shown, places = word_wrapped(text, transformation_input.width)
        return Transformation(
            [("", shown)],
            source_to_display=lambda at: places[min(at, len(places) - 1)],
            display_to_source=lambda at: max(bisect_right(places, at) - 1, 0),
        )


def word_wrapped(text: str, columns: int) -> tuple[str, list[int]]:
    """One line, filled up so that rows of so many columns break between words, and where in it
    each character of `text`, and its end, has gone."""
    shown, column = "", 0
    places: list[int] = []
    for word in re.findall(r"\s|\S+", text):
        width = get_cwidth(word)
        if word.isspace() and column >= columns:
            places.append(len(shown))  # what would begin a row is left out
            continue
        if column + width > columns >= width:
            shown += " " * (columns - column)
            column = 0
        for letter in word:
            step = get_cwidth(letter)
            column = step if column + step > columns else column + step
            places.append(len(shown))
            shown += letter
    return shown, [*places, len(shown)]
