// Demonstrations: quote the selection, shortcut keys that need a field or a selection, the draft of
// an answer. Only offsets into the page are sent, in code points; the server cuts the words itself.
"use strict";
(() => {
  const one = (what, where = document) => where.querySelector(what);
  const keysOn = () => document.body.dataset.keys !== "off";
  const windowText = () => one("[data-window]");

  // Convert an offset in a text node from UTF-16 to code points; a cut surrogate pair counts whole.
  const points = (text, units, atEnd) => {
    const low = text.charCodeAt(units) & 0xfc00, high = text.charCodeAt(units - 1) & 0xfc00;
    const inPair = units > 0 && units < text.length && low === 0xdc00 && high === 0xd800;
    const whole = inPair ? units + (atEnd ? 1 : -1) : units;
    return Array.from(text.slice(0, whole)).length;
  };

  // Return the offsets [start, end] in the page that a range covers, or null.
  const span = (range) => {
    const area = windowText();
    if (!area || range.collapsed || !range.intersectsNode(area)) return null;
    let start = -1, end = -1;
    for (const place of area.querySelectorAll("[data-start]")) {
      const text = place.firstChild;
      if (!text || !range.intersectsNode(text)) continue;
      const from = range.startContainer === text ? range.startOffset : 0;
      const to = range.endContainer === text ? range.endOffset : text.data.length;
      if (from >= to) continue;
      const at = Number(place.dataset.start);
      if (start < 0) start = at + points(text.data, from, false);
      end = at + points(text.data, to, true);
    }
    return start < end ? [start, end] : null;
  };

  const selected = () => {
    const selection = document.getSelection();
    return selection && selection.rangeCount ? span(selection.getRangeAt(0)) : null;
  };

  // Return the text node and the UTF-16 offset in it for an offset into the page.
  const placeOf = (offset, atEnd) => {
    let found = null;
    for (const place of windowText().querySelectorAll("[data-start]")) {
      const at = Number(place.dataset.start), text = place.firstChild;
      if (at > offset || (atEnd && at === offset && found)) break;
      const letters = Array.from(text.data);
      if (offset <= at + letters.length) found = [text, letters.slice(0, offset - at).join("").length];
    }
    return found;
  };

  const show = () => {
    const form = one("#quote-form");
    if (!form) return;
    const found = selected();
    form.hidden = !found;
    if (!found) return;
    form.elements.span.value = found.join("-");
    const many = found[1] - found[0];
    one(".quote-size", form).textContent = many === 1
      ? _("1 character") : _("%(count)s characters").replace("%(count)s", many.toLocaleString("en"));
    const boxes = document.getSelection().getRangeAt(0).getClientRects();
    const box = boxes[boxes.length - 1];
    if (!box) return;
    const below = Math.min(box.bottom + 8, window.innerHeight - form.offsetHeight - 8);
    form.style.top = `${Math.max(8, below)}px`;
    form.style.left = `${Math.max(8, Math.min(box.right - form.offsetWidth / 2, window.innerWidth - form.offsetWidth - 16))}px`;
  };

  // Select sentence by sentence with the keyboard.
  let chosen = null;
  const sentences = () => [...document.querySelectorAll("#from option")].map((each) => each.value.split("-").map(Number));
  const choose = (first, last) => {
    const all = sentences();
    if (!all[first] || !all[last]) return;
    const from = placeOf(all[first][0], false), to = placeOf(all[last][1], true);
    if (!from || !to) return;
    chosen = [first, last];
    document.getSelection().setBaseAndExtent(from[0], from[1], to[0], to[1]);
    to[0].parentElement.scrollIntoView({ block: "nearest" });
    show();
  };
  const firstInSight = () => sentences().findIndex(([start]) => {
    const place = placeOf(start, false);
    return place && place[0].parentElement.getBoundingClientRect().bottom > 160;
  });

  const quote = () => one("#quote-form").requestSubmit();
  const typing = (target) => target.closest("input:not([type=radio], [type=checkbox]), textarea, select, [contenteditable]");
  const open = () => one("[popover]:popover-open");

  document.addEventListener("selectionchange", show);
  document.addEventListener("scroll", show, { passive: true });
  // After a quote, restore the scroll position.
  document.addEventListener("submit", (event) => {
    if (event.target.id === "quote-form") sessionStorage.setItem("reading", JSON.stringify([location.pathname, scrollY]));
  });
  const [address, height] = JSON.parse(sessionStorage.getItem("reading") || "[]");
  sessionStorage.removeItem("reading");
  if (address === location.pathname && one("[data-window]")) scrollTo(0, height);

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-quote]");
    if (button && selected()) {
      event.preventDefault();
      quote();
    }
    const quoted = event.target.closest(".citable");
    const number = quoted && one("[data-cite]", quoted)?.dataset.cite;
    if (number && document.getSelection().isCollapsed) cite(number);
  });
  // Pressing a button would clear the selection before the click.
  document.addEventListener("pointerdown", (event) => {
    if (event.target.closest("[data-quote], #quote-form button")) event.preventDefault();
  });

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === "Escape" && chosen) {
      chosen = null;
      document.getSelection().removeAllRanges();
      return;
    }
    if (typing(event.target)) {
      if (event.key === "Escape") event.target.blur();
      // Who presses / in the empty search field, which has the focus at first, wants the field.
      if (keysOn() && event.key === "/" && event.target.dataset.focus === "/" && !event.target.value) {
        event.preventDefault();
      }
      return;
    }
    if (chosen && selected()) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        event.preventDefault();
        const last = chosen[1] + step;
        choose(event.shiftKey ? chosen[0] : Math.max(0, chosen[0] + step), event.shiftKey ? Math.max(chosen[0], last) : Math.max(0, chosen[0] + step));
        return;
      }
      if (event.key === "Enter") {
        event.preventDefault();
        quote();
        return;
      }
    }
    if (!keysOn() || open() || event.repeat) return;
    const field = one(`[data-focus="${CSS.escape(event.key)}"]`);
    if (field) {
      event.preventDefault();
      field.focus();
      field.select();
    } else if (event.key === "q" && one("[data-quote]")) {
      event.preventDefault();
      if (selected()) quote();
      else if (sentences().length) choose(Math.max(0, firstInSight()), Math.max(0, firstInSight()));
      else one("#by-hand").showPopover();
    }
  });

  // The answer: insert citation numbers at the caret, and save the draft.
  const cite = (number) => {
    const field = one("#answer");
    const before = field.value.slice(0, field.selectionStart);
    const mark = (before && !/[\s\]]$/.test(before) ? " " : "") + `[${number}]`;
    field.setRangeText(mark, field.selectionStart, field.selectionEnd, "end");
    field.focus();
    field.dispatchEvent(new Event("input", { bubbles: true }));
  };

  let timer = 0, sending = null, kept = null;
  const form = () => one("#compose[data-keeps]");
  const say = (words) => { one("#kept-answer").textContent = words; };
  const tell = (lints) => {
    one("#lints").replaceChildren(...lints.map((lint) => {
      const line = document.createElement("p");
      line.className = lint.bars ? "lint bars" : "lint";
      line.textContent = lint.sentence[0].toUpperCase() + lint.sentence.slice(1);
      return line;
    }));
  };
  const keep = async () => {
    clearTimeout(timer);
    timer = 0;
    if (sending) await sending;
    const here = form();
    if (!here || here.elements.answer.value === kept) return;
    const words = here.elements.answer.value;
    const body = new URLSearchParams({ seen: here.elements.seen.value, answer: words });
    sending = fetch(here.dataset.keeps, { method: "POST", body, keepalive: words.length < 10000 })
      .then(async (answer) => {
        const said = await answer.json();
        if (!answer.ok) return say(said.sentence);
        here.elements.seen.value = said.seen;
        kept = words;
        tell(said.lints);
        if (!timer) say(said.note || _("Kept")); // else more was written, and is sent next
      })
      .catch(() => say(_("Not kept: the desk cannot be reached. It is tried again when you write on.")))
      .finally(() => { sending = null; });
    await sending;
  };
  document.addEventListener("input", (event) => {
    if (event.target.id !== "answer" || !form()) return;
    say("");
    clearTimeout(timer);
    timer = setTimeout(keep, 1200);
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden && timer) keep(); });
  // A draft saved meanwhile would make the posted form stale.
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "compose" || !(sending || timer)) return;
    clearTimeout(timer);
    timer = 0;
    if (!sending) return;
    event.preventDefault();
    const button = event.submitter;
    sending.then(() => event.target.requestSubmit(button));
  });
  for (const button of document.querySelectorAll("[data-cite]")) button.hidden = false;

  if (one("[data-waiting]")) setTimeout(() => location.reload(), 1500);
})();
