"""Text that pages hide: what Chromium shows beside what the reader reads.

    python -m bench.hidden [--pages FOLDER ...] [--seed NUMBER] [--list]

Made pages hold lines that one of many tricks hides, or a like writing that hides nothing; what is
shown is what changes the picture when its letters change. Real pages are those of
../shared/data/readability and the .html and .html.gz files in FOLDER; each text of them begins with
a mark, and of each mark Chromium tells whether it is shown, by its box, its styles and what lies at
its place. Scripts are off, and nothing is fetched. Prints a table, with `--list` what is lost and
kept too, and writes bench/results/hidden.json.
"""

import argparse
import gzip
import io
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from selectolax.lexbor import LexborHTMLParser

from bench import report
from bench.pages import DATA, read_archive
from rookery.errors import Failed
from rookery.pages.html.style_hiding import READ_ALOUD
from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text

PAGES = report.choose_size(100, 2)
LINES = 10
"""on a made page"""
SEED = 2027
FAINT = 13
"""of 255: a difference of colours that nobody sees"""
SMALLEST = 3
"""pixels between the first and the last that change: less are dots that nobody can read"""

RULES = {
    "details": "folded up, one click away: read",
    "past an edge": "cut off by a box that has a size, which takes a layout: read",
    "until a script": "fades or slides in, or the page as a whole is shown later: read",
    "sheet elsewhere": "without colour, on a ground that a sheet elsewhere may give: read",
    "formula": "MathML beside its picture: read in the picture's place",
    "aria-hidden": "for eyes alone, and a sheet elsewhere may hide it: not read",
    "struck out": "deleted: not read",
    "screen readers": "named like text for screen readers, its sheet elsewhere: not read",
}
"""Kinds in which the reader goes its own way, and how."""

TELL_MARKS = r"""NAMED => {
for (const a of document.getAnimations()) { try { a.finish() } catch (e) {} }
const own = document.createElement('style');
own.textContent = '*{pointer-events:auto!important;scroll-behavior:auto!important}';
document.documentElement.append(own);
const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
const known = new Map();
const channels = color => {
  if (!known.has(color)) {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    known.set(color, [...canvas.getImageData(0, 0, 1, 1).data]);
  }
  return known.get(color);
};
const chain = e => { const all = []; for (; e; e = e.parentElement) all.push(e); return all };
const scrolls = s => /auto|scroll/.test(s.overflowX + s.overflowY);
const judge = (range, e) => {
  const option = e.closest('option');
  const list = option && option.closest('select');
  if (list) {
    if (list.size < 2 && !list.multiple && !option.selected) return 'select';
    e = list; range.selectNode(list);
  }
  const around = chain(e).map(node => [node, getComputedStyle(node)]);
  const own = around[0][1];
  const folded = e.closest('details:not([open])');
  if (folded && !e.closest('summary')) return 'details';
  if (around.some(([, s]) => s.display === 'none')) return 'display';
  if (own.visibility !== 'visible') return 'visibility';
  if (!e.checkVisibility({contentVisibilityAuto: false})) return 'content-visibility';
  let opacity = 1;
  for (const [, s] of around) {
    opacity *= s.opacity;
    const filter = /opacity\(([\d.]+)\)/.exec(s.filter);
    if (filter) opacity *= filter[1];
  }
  if (opacity <= .05) return 'opacity';
  const rects = [...range.getClientRects()].filter(r => r.width > 0 && r.height > 0);
  if (parseFloat(own.fontSize) * (e.currentCSSZoom || 1) <= 1) return 'size';
  const rect = rects[0];
  if (!rect || rect.height <= 1) return 'size';
  const color = channels(own.webkitTextFillColor || own.color);
  const clipped = /text/.test(own.webkitBackgroundClip) || own.textShadow !== 'none';
  if (color[3] * opacity <= 13 && !clipped) return 'color';
  for (const [, s] of around) {
    if (s.backgroundImage !== 'none') break;
    const ground = channels(s.backgroundColor);
    if (ground[3] > 242) {
      if (!clipped && Math.max(...[0, 1, 2].map(i => Math.abs(ground[i] - color[i]))) <= 13)
        return 'color';
      break;
    }
    if (/absolute|fixed|sticky/.test(s.position)) break;
    if (s === around[around.length - 1][1] && !clipped && Math.min(...color.slice(0, 3)) >= 242)
      return 'color';
  }
  if (rect.right + scrollX <= 0 || rect.bottom + scrollY <= 0) return 'off the page';
  if (rect.left + scrollX >= Math.max(innerWidth, document.documentElement.scrollWidth))
    return 'off the page';
  for (const [node, s] of around) {
    if (s.overflowX !== 'visible' && s.display !== 'inline' && node !== document.body &&
        (node.clientWidth <= 1 || node.clientHeight <= 1)) return 'clipped';
    if (scrolls(s) && node !== document.body) return '';
  }
  scrollTo(rect.left + scrollX - innerWidth / 2, rect.top + scrollY - innerHeight / 2);
  const box = [...range.getClientRects()].find(r => r.width > 0 && r.height > 0);
  let at = e;
  while (getComputedStyle(at).display === 'contents') at = at.parentElement;
  for (const part of [.5, .1, .9]) {
    const x = box.left + box.width * part, y = box.top + box.height / 2;
    if (document.elementsFromPoint(x, y).some(other => at.contains(other))) return '';
  }
  const cut = around.some(([node, s]) => s.clipPath !== 'none' || s.clip !== 'auto');
  return cut ? 'clipped' : 'past an edge';
};
const texts = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
const told = [];
while (texts.nextNode()) {
  const node = texts.currentNode, e = node.parentElement;
  const mark = /q\d+q/.exec(node.data);
  if (!mark || e.closest('style,script')) continue;
  const range = document.createRange();
  range.setStart(node, mark.index); range.setEnd(node, mark.index + mark[0].length);
  const kinds = [];
  for (const node of chain(e)) {
    const s = getComputedStyle(node);
    const page = node === document.body || node === document.documentElement;
    if (s.transitionDuration !== '0s' || s.animationName !== 'none' || s.willChange !== 'auto' ||
        page && (s.display === 'none' || s.visibility !== 'visible' || s.opacity <= .05))
      kinds.push('until a script');
  }
  if (document.querySelector('link[rel~=stylesheet]')) kinds.push('sheet elsewhere');
  if (e.closest('math')) kinds.push('formula');
  if (e.closest('[aria-hidden=true]')) kinds.push('aria-hidden');
  if (e.closest('s,strike,del')) kinds.push('struck out');
  if (e.closest(NAMED)) kinds.push('screen readers');
  told.push([mark[0], judge(range, e), kinds]);
}
return told}"""

FOLD = r"""(number) => {const e = document.getElementById('i' + number); e.was = e.textContent;
e.textContent = e.was.replace(/[a-z]/g, 'M')}"""
UNFOLD = "(number) => {const e = document.getElementById('i' + number); e.textContent = e.was}"


@contextmanager
def open_browser() -> Iterator[Any]:
    """Give a page of Chromium that runs no scripts and fetches nothing."""
    report.require_peers("playwright")
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        report.skip_bench("Chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        size: Any = {"width": 1280, "height": 720}
        context = browser.new_context(viewport=size, java_script_enabled=False)
        context.route("**/*", lambda route: route.abort())
        yield context.new_page()
        browser.close()


def read_text(html: str) -> str:
    """Return the text that the reader shows; empty if it refuses the page."""
    try:
        page = read_page(html.encode(), "https://example.org/a", "text/html; charset=utf-8")
        return join_visible_text(page, full=True)
    except Failed:
        return ""


def choose_style(chance: random.Random) -> str:
    """Return declarations that hide, or that are written like such ones."""
    number, pick = chance.randint, chance.choice
    far, near, digit = number(2000, 9999), number(1, 30), number(0, 9)
    ground = f"{number(2, 5)}{number(2, 5)}{number(2, 5)}"
    styles = (
        pick(("display:none", "display:block", "display:none;display:block", "DISPLAY:None")),
        pick(("display:none!important", "display:none ! important", "display:none!ie")),
        pick(("display:no/**/ne", "dis\\70lay:none", "display:n\\6f ne", "display:/*x*/none")),
        pick(("visibility:hidden", "visibility:collapse", "visibility:visible")),
        f"color:rgba({number(0, 255)},{number(0, 255)},{number(0, 255)},{pick(('0', '0%', '.9'))})",
        f"color:rgb({number(0, 99)} {number(0, 99)} {number(0, 99)}/{pick(('0', '0%', '.8'))})",
        f"color:hsl({number(0, 359)} {number(0, 100)}% {pick(('100', '30'))}%)",
        f"color:hsla({number(0, 359)},50%,30%,{pick(('0', '.7'))})",
        f"color:hwb({number(0, 359)} {pick(('100', '10'))}% 0%)",
        f"color:#{pick('fd')}{pick('fe')}{pick('fd')}",
        f"color:#{number(0, 9)}{number(0, 9)}{number(0, 9)}{pick('0f')}",
        f"color:{pick(('white', 'transparent', 'snow', 'navy', 'currentcolor'))}",
        f"color:oklch({pick(('1', '.3', '100%'))} 0 0)",
        f"background:#{ground};color:#{pick((ground, 'fff'))}",
        f"background-color:rgb(0 0 {near});color:rgb({pick(('0,0', '220,220'))},{near})",
        f"-webkit-text-fill-color:{pick(('transparent', '#111', '#ffff'))}",
        f"opacity:{pick(('0', '.01', '0.0', '1%', '0%', '1e-3', '.4', '90%', 'calc(1 - 1)'))}",
        f"filter:{pick(('opacity(0)', 'opacity(0%)', 'opacity(60%)', 'blur(0)', 'contrast(1)'))}",
        f"font-size:{pick(('0', '.4px', '1px', '0em', '0%', '1e-2px', '14px', '1.2em', '90%'))}",
        f"font-size:calc({pick(('2px - 2px', '2px*0', '7px + 7px', '1em/1'))})",
        f"font-size:{pick(('min(0px,2em)', 'max(0px,1em)', 'clamp(0px,0px,1em)'))}",
        f"font:{pick(('0/1 monospace', '0px serif', 'italic 17px/1 serif', '.1px/2 x'))}",
        f"zoom:{pick(('.001', '.01', '1', '1.4', '80%'))}",
        f"transform:scale({pick(('0', '0,1', '1,0', '.7', '1', '-1'))})",
        f"transform:scale{pick('XY')}({pick(('0', '.8', '1'))})",
        f"transform:rotate{pick('XY')}({pick(('90deg', '.25turn', '100grad', '30deg', '0'))})",
        f"transform:translate{pick('XY')}({pick((-far, near))}px)",
        f"transform:translate({pick((f'-{far}px', '-200vw', f'{near}px', '3%'))},{near}px)",
        f"transform:translate3d({pick((-far, near))}px,0,0)",
        f"transform:matrix({pick(('0,0,0,0,0,0', '1,0,0,1,4,4', f'1,0,0,1,-{far},0'))})",
        f"scale:{pick(('0', '1', '0 1', '.9'))}",
        f"translate:{pick((-far, near))}px",
        f"rotate:{pick('xy')} {pick(('90deg', '20deg'))}",
        f"position:absolute;{pick(('left', 'top'))}:-{far}px",
        f"position:{pick(('absolute', 'fixed'))};{pick(('right', 'bottom'))}:{far}px",
        f"position:fixed;left:{pick(('-100vw', '-99em', '10px'))}",
        f"position:absolute;inset:-{far}px auto auto 0",
        f"position:relative;left:{pick((-far, near))}px",
        f"{pick(('left', 'top'))}:-{far}px",
        f"margin-left:{pick((-far, near))}px",
        f"margin:{pick((f'0 0 0 -{far}px', f'0 {near}px', '0'))}",
        f"text-indent:{pick((f'-{far}px', '-999em', f'{near}px', '2em'))}",
        f"text-indent:{pick(('100%', '9%'))};overflow:{pick(('hidden', 'clip'))}"
        f"{pick(('', ';white-space:nowrap'))}",
        f"clip-path:{pick(('inset(50%)', 'inset(0 60% 0 40%)', 'inset(0)', 'inset(100%)'))}",
        f"clip-path:{pick(('circle(0)', 'circle(0px at 0 0)', 'circle(100%)', 'ellipse(0 0)'))}",
        f"clip-path:polygon({pick(('0 0,0 0,0 0', '0 0,100% 0,100% 100%,0 100%', '0 0'))})",
        f"clip:rect({pick(('0,0,0,0', '1px 1px 1px 1px', 'auto auto auto auto'))});"
        f"position:{pick(('absolute', 'static'))}",
        f"height:{pick(('0', '1px', '2em'))};overflow:{pick(('hidden', 'visible', 'clip'))}",
        f"max-height:{pick(('0', '3em'))};overflow-y:{pick(('hidden', 'clip'))}",
        f"width:{pick(('0', '1px', '20em'))};overflow:hidden",
        f"max-width:{pick(('0', '90%'))};overflow:hidden",
        f"height:0;padding-top:{pick(('2em', '0'))};overflow:hidden",
        f"content-visibility:{pick(('hidden', 'auto', 'visible'))}",
        f"mask:linear-gradient({pick(('transparent,transparent', '#0000 0 0', '#000,#000'))})",
        f"-webkit-mask-image:linear-gradient({pick(('#fff0,#fff0', 'red,blue'))})",
        f"--v:{pick(('none', 'block'))};display:var(--v)",
        f"display:var(--unknown,{pick(('none', 'block'))})",
        f"text-decoration:{pick(('none', 'underline', 'overline'))}",
        f"position:relative;z-index:{pick(('-1', '1'))}",
        f"all:{pick(('unset', 'initial'))};display:{pick(('none', 'block'))}",
        f"padding:{digit}px;border:0 solid;line-height:1.{digit}",
    )
    return chance.choice(styles)


def make_page(seed: int) -> tuple[str, list[str]]:
    """Return a page of lines, of which each may be hidden in one of many writings, and these."""
    chance = random.Random(seed)
    sheet, body = "div{font:16px monospace}.z{background:#fff}body>div{height:32px}", ""
    written: list[str] = []
    for number in range(LINES):
        before = len(sheet)
        name, style, inline, attributes = f"k{number}", choose_style(chance), "", ""
        shown = "display:block;opacity:1;position:static;color:#000;font-size:16px"
        rules = (
            f".k{number}{{{style}}}",
            f"#i{number}{{{style}}}",
            f"div .k{number} , .none{{{style}}}",
            f":is(p,div).k{number}{{{style}}}",
            f":is(p,section){{{style}}}",
            f":where(.o{number}) :is(.k{number}, p){{{style}}}",
            f".o{number}{{.k{number}{{{style}}}}}",
            f".o{number}{{& > div{{{style}}} color:#000}}",
            f".k{number}{{color:#000;&.k{number}{{{style}}}}}",
            f"@media {chance.choice(MEDIA)}{{.k{number}{{{style}}}}}",
            f"@media print{{.none{{color:red}}}}.k{number}{{{style}}}",
            f"@supports {chance.choice(SUPPORTS)}{{.k{number}{{{style}}}}}",
            f"@layer z{{.k{number}{{{style}}}}}",
            f"@layer z{{#i{number}{{{style}}}}}.k{number}{{{shown}}}",
            f".k{number}{{{style}}}#i{number}{{{shown}}}",
            f"div.k{number}{{{style}}}.k{number}{{{shown}}}",
            f".k{number}{{{style}}}.k{number}{{{shown}}}",
            f".o{number}>div:not(.zz,p){{{style}}}",
            f".o{number}>:first-child{{{style}}}",
            f".o{number}>:nth-child({chance.choice('12')}){{{style}}}",
            f".o{number}:has(#i{number}){{{style}}}",
            f"[data-n='{number}']{{{style}}}",
            f'[data-n^="{number}" i],.a\\,b{{{style}}}',
            f"/* .x{{ */.k{number}{{;{style}}}",
            f".k{number}::before{{{style}}}",
            f".k{number}:hover{{{style}}}",
            f".K{number}{{{style}}}",
            f"#i{number}{{{style}!important}}" if ";" not in style and "!" not in style else "",
            f"<!-- .k{number}{{{style}}} -->",
            f"@font-face{{font-family:x;src:url(x)}}.k{number}{{{style}}}",
            f"@container (width>1px){{.k{number}{{{style}}}}}",
            f".k{number}{{{style}",
        )
        way = chance.randrange(len(rules) + 8)
        if way < len(rules) - 1 or (way < len(rules) and number == LINES - 1):
            sheet += rules[way]
        elif way < len(rules) + 3:
            inline = style.replace('"', "'")
        elif way < len(rules) + 4:
            sheet += f".k{number}{{display:none!important}}"
            inline = "display:block"
        elif way < len(rules) + 5:
            attributes = chance.choice((" hidden", " data-hidden", " hidden=x", " HIDDEN=''"))
            inline = chance.choice(("", "display:flex", "color:#111"))
        elif way < len(rules) + 6:
            sheet += f".o{number}{{{style}}}.k{number}{{{chance.choice(UNDONE)}}}"
        else:
            sheet += f".o{number}{{{style}}}"
        attributes += f' style="{inline}"' if inline else ""
        lines = (
            f"<div class='o{number} {chance.choice('zy')}'><div class='{name}' data-n={number}"
            f" id='i{number}'{attributes}>zq{number}q crows came to town</div></div>\n"
        )
        written.append(sheet[before:] + " " + lines.strip())
        body += lines
    html = f"<!doctype html><meta charset=utf-8><style>{sheet}</style><h2>At the top</h2>{body}"
    return html, written


MEDIA = (
    "print", "screen", "all and (min-width:900px)", "(max-width:900px)", "not print", "only screen",
    "(width<=2000px)", "(400px<width<900px)", "(hover)", "(prefers-color-scheme:dark)",
    "screen and (orientation:portrait)", "not all and (min-width:1px)", "print,screen",
)  # fmt: skip
SUPPORTS = (
    "(display:grid)", "not (display:grid)", "(color:red) and (display:flex)", "(x:y)",
    "(display:flex) or (x:y)", "selector(:is(a))",
)  # fmt: skip
UNDONE = (
    "visibility:visible", "font-size:16px", "color:#000", "display:block", "opacity:1",
    "position:static", "transform:none", "max-height:none",
)  # fmt: skip


def measure_made_pages(browser: Any, seed: int, pages: int) -> tuple[Counter[str], list[str]]:
    """Return numbers of lines that are shown and read, hidden and not read, lost and kept, and what
    is written of each line that is lost or kept."""
    counts, wrong = Counter[str](), list[str]()
    for number in range(pages):
        html, written = make_page(seed * 1000 + number)
        browser.set_content(html)
        text, before = read_text(html), take_picture(browser)
        for line in range(LINES):
            browser.evaluate(FOLD, line)
            after = take_picture(browser)
            browser.evaluate(UNFOLD, line)
            changed = np.nonzero(np.abs(after - before).max(axis=2) > FAINT)
            shown = all(each.size and np.ptp(each) >= SMALLEST for each in changed)
            read = f"zq{line}q" in text
            counts[("shown" if read else "lost") if shown else "kept" if read else "hidden"] += 1
            if shown != read:
                wrong.append(f"{'lost' if shown else 'kept'}: {written[line]}")
    return counts, wrong


def take_picture(browser: Any) -> Any:
    """Return what the browser's window shows, as numbers."""
    picture = Image.open(io.BytesIO(browser.screenshot())).convert("RGB")
    return np.asarray(picture).astype(int)


def mark_texts(html: str) -> tuple[str, dict[str, int]]:
    """Write a mark before each text of a page; return the page and the words of each text."""
    parser = LexborHTMLParser(html)
    words: dict[str, int] = {}
    around = "script style template textarea title noscript iframe noframes noembed xmp head svg"
    nodes = [] if parser.body is None else list(parser.body.traverse(include_text=True))
    for node in nodes:
        count = len(re.findall(r"\w+", node.text_content or "")) if node.tag == "-text" else 0
        parent = node.parent
        while count and parent is not None and parent.tag not in around.split():
            parent = parent.parent
        if count and parent is None and len((node.text_content or "").strip()) > 1:
            mark = f"q{len(words)}q"
            words[mark] = count
            node.replace_with(f"{mark} {node.text_content}")
    return parser.html or "", words


def name_kind(reason: str, read: bool, kinds: Sequence[str]) -> str:
    """Return the kind of a text by what the browser and the reader make of it."""
    own = (
        ["until a script", "formula"] if reason else ["aria-hidden", "screen readers", "struck out"]
    )
    own += ["sheet elsewhere"] if reason == "color" else []
    if bool(reason) != read:
        return "hidden" if reason else "shown"
    if reason in RULES:
        return reason
    return next((kind for kind in own if kind in kinds), "kept" if reason else "lost")


def measure_real_pages(
    browser: Any, pages: Mapping[str, str]
) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """Return numbers of words by kind, and of each kind those of each page."""
    counts, places = Counter[str](), dict[str, Counter[str]]()
    for name, source in pages.items():
        html, words = mark_texts(source)
        if not (text := read_text(html)):
            continue
        counts["pages"] += 1
        try:
            browser.set_content(html, wait_until="domcontentloaded", timeout=20_000)
            told = browser.evaluate(TELL_MARKS, READ_ALOUD)
        except Exception as error:  # of the browser: one page less
            print(f"{name}: {str(error).splitlines()[0]}")
            continue
        read = set(re.findall(r"q\d+q", text))
        for mark, reason, kinds in told:
            kind = name_kind(reason, mark in read, kinds)
            counts[kind] += words[mark]
            detail = f"{kind} ({reason})" if kind == "kept" else kind
            places.setdefault(detail, Counter())[name] += words[mark]
    return counts, places


def list_pages(folders: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield name and source of the pages of the archive and of these folders."""
    if DATA.exists():
        for name, source, _ in read_archive():
            # The archive has made XML of its pages, and browsers drop a sheet that begins so.
            yield name, re.sub(r"<!\[CDATA\[|\]\]>", "", source.decode(errors="replace"))
    for folder in folders:
        for path in sorted(folder.rglob("*.htm*")):
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
            yield str(path.relative_to(folder)), data.decode(errors="replace")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pages", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--seed", type=int, default=SEED, help="of the made pages")
    parser.add_argument("--list", action="store_true", help="print what is lost and kept")
    options = parser.parse_args()
    report.require_data(DATA)
    with open_browser() as browser:
        made, wrong = measure_made_pages(browser, options.seed, PAGES)
        real, places = measure_real_pages(browser, dict(list_pages(options.pages)))
    columns = ("shown", "hidden", "lost", "kept", *RULES)
    report.print_table(columns, {"lines of made pages": made, "words of real pages": real})
    for line in wrong if options.list else ():
        print(line)
    for kind, pages in places.items() if options.list else ():
        print(kind, pages.most_common(8))
    figures = {
        "seed": options.seed,
        "made_pages": PAGES,
        "made": made,
        "real": real,
        "rules": RULES,
    }
    report.write_results("hidden", figures)


if __name__ == "__main__":
    main()
