// The stored page beside the answer: at its right in a wide window, in a sheet over a narrow one.
// Of the stored page's own page the text alone is put in.
(() => {
  "use strict";
  const panel = document.getElementById("beside");
  if (!panel) return;
  const wide = matchMedia("(min-width: 75rem)");
  const one = (selector) => panel.querySelector(selector);
  const cards = [...document.querySelectorAll(".quotes .cited-quote")];
  const cites = [...document.querySelectorAll(".cite[data-quote]")];
  const view = one(".beside-page");
  let now = -1;
  let wanted = "";
  let shown = "";
  let loading = false;

  const linkOf = (card) => card.querySelector("a.show-quote");

  // The picture of a PDF's page has the words marked, too, and looks like what people know.
  const markedWords = () => view.querySelector(".pdf-page .quoted") || view.querySelector("mark");

  const moveToQuote = () => {
    const mark = markedWords();
    if (!mark) return;
    const above = mark.getBoundingClientRect().top - view.getBoundingClientRect().top;
    view.scrollTop += above - view.clientHeight * 0.3;
  };

  // One page after the other: an earlier answer of the server must not come over a later one.
  const load = async (address) => {
    wanted = address;
    if (loading) return;
    loading = true;
    view.setAttribute("aria-busy", "true");
    if (!view.firstChild) view.textContent = _("Loading the page …");
    while (shown !== wanted) {
      shown = wanted;
      const page = await fetchPage(shown.split("#")[0]).catch(() => null);
      view.replaceChildren(...[page?.getElementById("shown")].filter(Boolean));
    }
    loading = false;
    view.removeAttribute("aria-busy");
    if (!view.querySelector("#shown")) {
      view.textContent = _("The stored page could not be shown. Open it by itself, or try again.");
      shown = "";
    }
    moveToQuote();
  };

  const show = (number, open = true) => {
    now = Math.min(Math.max(number, 0), cards.length - 1);
    const card = cards[now];
    cards.forEach((each) => each.toggleAttribute("data-shown", each === card));
    cites.forEach((each) => {
      if (Number(each.dataset.quote) === now + 1) each.setAttribute("aria-current", "true");
      else each.removeAttribute("aria-current");
    });
    one(".beside-count").textContent = _("Quote %(number)s of %(count)s")
      .replace("%(number)s", now + 1).replace("%(count)s", cards.length);
    one(".beside-title").textContent = card.querySelector("figcaption .title").textContent;
    one(".beside-alone").href = linkOf(card).href;
    one("[data-step='-1']").disabled = now === 0;
    one("[data-step='1']").disabled = now === cards.length - 1;
    if (wide.matches) panel.setAttribute("open", "");
    else if (open && !panel.open) panel.showModal();
    if (panel.open) load(linkOf(card).href);
  };

  // A cite or link of the number that is shown takes the focus along, where one had it.
  const step = (by) => {
    const focused = document.activeElement;
    show(now + by);
    if (focused?.matches(".cite")) cites.find((each) => Number(each.dataset.quote) === now + 1)?.focus();
    else if (focused?.matches("a.show-quote")) linkOf(cards[now]).focus();
  };

  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const said = event.target.closest(".cite[data-quote], .quotes a.show-quote, .quotes blockquote");
    if (!said) return;
    const quoted = said.matches("blockquote");
    if (quoted && !getSelection().isCollapsed) return; // somebody selects words of it
    event.preventDefault();
    show(Number((quoted ? linkOf(said.closest(".cited-quote")) : said).dataset.quote) - 1);
  });
  panel.addEventListener("click", (event) => {
    const button = event.target.closest("[data-step]");
    if (button) step(Number(button.dataset.step));
    if (event.target.closest(".beside-close") || event.target === panel) panel.close();
  });

  const STEPS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };
  document.addEventListener("keydown", (event) => {
    const by = STEPS[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.target.matches("input, textarea, select") || event.target.closest(".rows, .lines")) return;
    const upright = event.key === "ArrowUp" || event.key === "ArrowDown";
    if (upright && !event.target.matches(".cite, a.show-quote")) return; // they scroll
    if (!panel.open && !event.target.matches(".cite, a.show-quote")) return;
    event.preventDefault();
    step(by);
  });

  const fit = () => {
    if (panel.open) panel.close();
    if (wide.matches) show(Math.max(now, 0));
  };
  wide.addEventListener("change", fit);
  fit();
})();
