"""The desk's board as lines of text. It knows nothing of stores and of commands."""

from collections.abc import Iterator, Sequence

from rookery.judge.agreed import Alpha, Pair, Rate
from rookery.judge.agreement import Measured, Side, Undefined
from rookery.judge.quality import Board
from rookery.judge.raters import Labelling, Prelude, Trusted

_PASSED = {True: "passed", False: "failed", None: "not over"}


def stats(board: Board) -> Iterator[str]:
    """Who did how much and how well, and what is left out."""
    where = f"batch {board.batch}" if board.batch else "all batches"
    yield f"{where}: {board.items:,} items, {board.judgements:,} judgements that count"
    yield from (f"left out: {count:,} {reason}" for reason, count in board.left_out.items())
    if board.people:
        heads = "name,role,done,late,skipped,flagged,excluded,median,fast,gold,first shown"
        rows = [heads.split(","), *(_person(each) for each in board.people)]
        yield ""
        yield from _table([[*row, more] for row, more in zip(rows, _more(board), strict=True)])
    yield from _notes(board)


def agreement(board: Board) -> Iterator[str]:
    """How far people agree, and on what."""
    yield "which answer is better, a tie being half (two answers), or the same (more):"
    for rate in board.rates:
        yield from _rate(rate)
    if board.pairs:
        yield ""
        heads = ["two people", "items", "agree", "kappa", "same of more"]
        yield from _table([heads, *(_pair(each) for each in board.pairs)])
    if board.alphas:
        yield ""
        heads = ["field", "level", "judgements", "alpha"]
        yield from _table([heads, *(_alpha(each) for each in board.alphas)])


def _person(each: Labelling) -> list[str]:
    counts = (each.done, each.late, each.skipped, each.flagged, each.excluded)
    return [
        each.name,
        each.role,
        *map(str, counts),
        "" if each.seconds is None else _time(each.seconds),
        f"{each.fast}{' !' * each.hasty}",
        f"{each.gold_right}/{each.gold}" if each.gold else "",
        "" if each.side is None else f"{_side(each.side)}{' !' * each.lopsided}",
    ]


def _more(board: Board) -> Iterator[str]:
    """The last column: what is known of a person besides."""
    yield "besides"
    for each in board.people:
        told = [_prelude(prelude) for prelude in each.preludes]
        told += [_trusted(each.trusted)] if each.trusted is not None else []
        yield "; ".join(told)


def _prelude(prelude: Prelude) -> str:
    what = _PASSED[prelude.passed]
    return f"check of {prelude.batch}: {prelude.right}/{prelude.of} {what}"


def _trusted(trusted: Trusted) -> str:
    three = (trusted.supported, trusted.plausible, trusted.preferred)
    said = ", ".join(
        f"{name} {_share(each)}"
        for name, each in zip(("supported", "plausible", "preferred"), three, strict=True)
        if each.items
    )
    return f"as researchers: {said}{' (super rater)' * bool(trusted.passed)}"


def _notes(board: Board) -> Iterator[str]:
    if any(each.hasty or each.lopsided for each in board.people):
        yield ""
        yield "! look into it: often done in a tenth of the time, or one side preferred too often"
    if board.exclusions:
        yield ""
    for told in board.exclusions:
        row = told.exclusion
        where = f" in {row.batch}" if row.batch else ""
        what = "excluded" if told.holds else "excluded, and lifted again"
        yield (
            f"{what} (number {row.number}): {row.what} {row.which}{where}, "
            f"{told.judgements:,} judgements, by {row.by}: {row.reason}"
        )
    if board.proposals:
        yield ""
    for each in board.proposals:
        yield f"to be excluded: {each.person}, {each.judgements:,} judgements: {each.reason}"


def _rate(rate: Rate) -> Iterator[str]:
    kinds = (("two answers", rate.credit), ("more", rate.same))
    for what, measured in kinds:
        if measured.items:
            yield f"  {rate.between}, {what}: {_measured(measured)}, {measured.items:,} items"
    if not (rate.credit.items or rate.same.items):
        yield f"  {rate.between}: no item was judged by both"


def _pair(pair: Pair) -> list[str]:
    names = f"{pair.one}, {pair.other}"
    items = str(max(pair.credit.items, pair.same.items))
    return [names, items, *(_measured(each) for each in (pair.credit, pair.kappa, pair.same))]


def _alpha(each: Alpha) -> list[str]:
    return [f"{each.form}: {each.field}", each.level, str(each.judgements), _measured(each.alpha)]


def _measured(measured: Measured) -> str:
    """A number with its interval, or why there is none."""
    if not measured.items:
        return ""
    if isinstance(measured.value, Undefined):
        return f"none ({measured.value.reason})"
    interval = "" if measured.low is None else f" [{measured.low:.2f}, {measured.high:.2f}]"
    return f"{measured.value:.2f}{interval}"


def _share(measured: Measured) -> str:
    shown = "" if isinstance(measured.value, Undefined) else f"{measured.value:.0%}"
    return f"{shown} of {measured.items}"


def _side(side: Side) -> str:
    return f"{side.share:.0%} of {side.judged}"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest cell; what is empty everywhere is left out."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    for row in zip(*columns, strict=True):
        yield "  ".join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True)).rstrip()
