"""Sixty small pages, each with a sentence that a person would read aloud from it: the quote found
for it is that sentence, and what would change its meaning cannot be quoted."""

import pytest

from rookery.browser.page_view import PageView
from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text
from rookery.pages.text_folding import locate_quote

KATEX = """<span class="katex"><span class="katex-mathml">
<math><semantics><mrow><mi>E</mi>
<mo>=</mo><mi>m</mi><msup><mi>c</mi><mn>2</mn></msup></mrow>
<annotation encoding="application/x-tex">E=mc^2
</annotation></semantics></math></span><span class="katex-html" aria-hidden="true">E=mc2</span>
</span>"""
MATHJAX = """<mjx-container><mjx-math aria-hidden="true">pic</mjx-math>
<mjx-assistive-mml><math><mi>a</mi>
<mo>≠</mo><mn>0</mn></math></mjx-assistive-mml></mjx-container>"""
MEDIAWIKI = """<span class="mwe-math-element"><span style="display: none;"><math><msqrt><mi>x</mi>
<mo>+</mo><mn>1</mn></msqrt></math></span><img alt="{\\displaystyle {\\sqrt {x+1}}}"></span>"""
HALF = "<math><mfrac><mn>1</mn><mn>2</mn></mfrac></math>"
ROWS = """<table><tr><th>Bird<th>Eggs<th>Years<tr><td>Crow<td><td>17<tr><td rowspan=2>Jay<td>4<td>7
<tr><td>5<td>9</table>"""

PAGES = [
    # Formulas, powers and indices.
    (f"<p>A crow ate {HALF} of it.", "A crow ate 1/2 of it."),
    (f"<p>It flew 2{HALF} miles.", "It flew 2 1/2 miles."),
    ("<p>It is <math><msup><mn>10</mn><mrow><mo>−</mo><mn>3</mn></mrow></msup></math> m long.",
     "It is 10^−3 m long."),
    ("<p>The mean is <math>"
     "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac></math>.",
     "The mean is (a+b)/2."),
    ("<p>So <math>"
     "<msub><mi>x</mi><mi>i</mi></msub><mo>=</mo><msqrt><mi>y</mi></msqrt></math> holds.",
     "So x_i=√y holds."),
    ("<p>Now <math><mroot><mn>8</mn><mn>3</mn></mroot><mo>=</mo><mn>2</mn></math> is known.",
     "Now ∛8=2 is known."),
    ("<p>The sum <math><munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi>"
     "</munderover><mi>i</mi></math> grows.", "The sum ∑_(i=1)^n i grows."),
    (f"<p>Einstein wrote {KATEX} in 1905.", "Einstein wrote E=mc^2 in 1905."),
    (f"<p>If {MATHJAX}, there are two.", "If a≠0, there are two."),
    (f"<p>Take {MEDIAWIKI} next.", "Take √(x+1) next."),
    ("<p>A wavelength of 10<sup>-3</sup> m is long.", "A wavelength of 10^-3 m is long."),
    ("<p>Water is H<sub>2</sub>O to a crow.", "Water is H_2O to a crow."),
    ("<p>Hence x<sup>n+1</sup> is even.", "Hence x^(n+1) is even."),
    ("<p>Add Ca<sup>2+</sup> and SO<sub>4</sub><sup>2−</sup> ions.", "Add Ca^2+ and SO_4^2− ions."),
    ("<p>It has 5<sup>1</sup>/<sub>2</sub> eggs.", "It has 5 1/2 eggs."),
    ("<p>The area is 12 km<sup>2</sup> wide.", "The area is 12 km^2 wide."),
    ("<p>By <sup>14</sup>C it is old.", "By ^14C it is old."),
    # Raised text that is no power.
    ("<p>The 1<sup>st</sup> crow came.", "The 1st crow came."),
    ("<p>Au XIX<sup>e</sup> siècle, M<sup>me</sup> Corneille vint.",
     "Au XIXe siècle, Mme Corneille vint."),
    ('<p>Crows live 20 years<sup><a href="#n1">1</a></sup> at most.',
     "Crows live 20 years[1] at most."),
    ('<p>That was in 2019<a href="#n2"><sup>2</sup></a>.', "That was in 2019[2]."),
    ('<p>Jays hide seeds.<sup>[3]</sup> They return.', "Jays hide seeds.[3] They return."),
    ("<p>They remember.<sup>4,5</sup><sup>:12</sup> We forget.",
     "They remember.[4,5]:12 We forget."),
    ("<p>Tylenol<sup>®</sup> harms crows.", "Tylenol® harms crows."),
    # Deleted and inserted text.
    ("<p>It costs <del>$500</del><ins>$300</ins> now.", "It costs $300 now."),
    ("<p>It costs <s>$500</s> $300 now.", "It costs $300 now."),
    ("<p>Crows are <strike>not </strike>clever.", "Crows are clever."),
    # Quotations.
    ("<p>She said <q>crows count</q> and left.", "She said “crows count” and left."),
    ("<p>He wrote <q>she said <q>no</q> twice</q>.", "He wrote “she said ‘no’ twice”."),
    ("<p>They say <q>“caw”</q> a lot.", "They say “caw” a lot."),
    # Lists.
    ("<ol><li>Find a nut.<li>Drop it.</ol>", "2. Drop it."),
    ("<ol start=5><li>Open the shell.</ol>", "5. Open the shell."),
    ("<ol><li>One.<li value=9>Nine.<li>Ten.</ol>", "10. Ten."),
    ("<ol reversed><li>Third place.<li>Second.<li>First.</ol>", "3. Third place."),
    ("<ol type=a><li>A nut.<li>A stone.</ol>", "b. A stone."),
    ("<ol type=I><li>Crows.<li>Jays.<li>Magpies.<li>Rooks.</ol>", "IV. Rooks."),
    ("<ul><li>Crows are black.</ul>", "Crows are black."),
    # Tables.
    (ROWS, "Bird\tEggs\tYears"),
    (ROWS, "Crow\t\t17"),
    (ROWS, "Jay\t4\t7\nJay\t5\t9"),
    ("<table><tr><td>Nest<td colspan=2>built<td>2019</table>", "Nest\tbuilt\t\t2019"),
    # Hidden text.
    ('<p>Crows <span style="font-size:0">never </span>learn.', "Crows learn."),
    ('<p>Crows <span style="opacity:0">never </span>learn.', "Crows learn."),
    ('<p>Crows <span style="position:absolute;left:-9999px">never </span>learn.', "Crows learn."),
    ('<p>Crows <span style="color:#fff">never </span>learn.', "Crows learn."),
    ('<p>Crows <span style="color:red;background:red">never </span>learn.', "Crows learn."),
    ('<p>Crows <span style="display:inline-block;height:0;overflow:hidden">never </span>learn.',
     "Crows learn."),
    ('<p>Crows <span style="clip-path:inset(100%)">never </span>learn.', "Crows learn."),
    ("<style>p .x{visibility:hidden}</style><p>Crows <b class=x>never </b>learn.", "Crows learn."),
    ("<style>#y.x{text-indent:-999em}</style><p>Crows <b id=y class=x>never </b>learn.",
     "Crows learn."),
    ("<dialog>Crows never learn.</dialog><p>Crows learn.", "Crows learn."),
    ("<details><summary>Do crows learn?</summary><p>Crows learn.</details>", "Crows learn."),
    # Signs and other kinds of text.
    ('<h2 id=a>On memory<a class="headerlink" href="#a">¶</a></h2><p>x', "On memory"),
    ('<h2><a class="anchor" href="#b">#</a>On tools</h2><p>x', "On tools"),
    ("<svg><title>Plot</title><text>Crows per year</text></svg>", "Crows per year"),
    ('<div><template shadowrootmode="open"><p>Crows come at dusk.</p></template></div>',
     "Crows come at dusk."),
    ('<frameset><frame src="crows.html" title="All about crows"></frameset>', "All about crows"),
    ('<meta http-equiv="refresh" content="0; url=/crows">', "/crows"),
    ('<?xml version="1.0"?><!DOCTYPE html [<!ENTITY c "Crows">]><html><p>&c; learn.</p></html>',
     "Crows learn."),
    ('<div id="root"></div><script type="application/ld+json">{"articleBody":"Crows learn. '
     + "And so on. " * 30 + '"}</script>', "Crows learn."),
]  # fmt: skip
UNSAID = ("$500$300", "not clever", "never", "¶", "#", "Bird\tYears", "E=mc2", "10-3 m", "17\t")


def test_there_are_sixty() -> None:
    assert len(PAGES) == 60


@pytest.mark.parametrize(("html", "sentence"), PAGES)
def test_the_quote_is_what_a_person_would_read_aloud(html: str, sentence: str) -> None:
    page = read_page(html.encode(), "https://example.org/a", "text/html")
    quote = locate_quote(page, sentence)
    assert quote is not None, page.text
    assert quote.text == sentence
    shown = join_visible_text(page, full=True)
    if "\t" not in sentence:
        assert sentence in shown
        if "href" not in html and "src" not in html and "url" not in html:
            assert sentence in PageView(page, 2000, (), full=True).window_at(0).text
    assert not [words for words in UNSAID if words in shown]
