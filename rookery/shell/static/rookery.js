// Enhancements of the pages, which also work without it: shortcut keys, saved drafts, marked claims.
"use strict";
(() => {
  // Translations of the texts of all scripts, from the page; in English there are none.
  const texts = JSON.parse(document.getElementById("texts")?.textContent ?? "{}");
  window._ = (text) => texts[text] ?? text;

  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const seen = (element) => element.checkVisibility({ visibilityProperty: true });
  document.documentElement.classList.add("scripted");

  let hiding = 0;
  const say = (sentence) => {
    one("#toast").textContent = sentence;
    clearTimeout(hiding);
    hiding = setTimeout(() => { one("#toast").textContent = ""; }, 8000);
  };

  // Shortcut keys: press the button with this data-key, or select the choice with it in the
  // question that has the focus, or else in the first unanswered one.
  const TYPED = "textarea, select, [contenteditable], input:not([type=radio], [type=checkbox])";
  const PRESSED = "a[href], button, summary";
  document.addEventListener("keydown", (event) => {
    const off = document.body.dataset.keys === "off";
    if (off || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.defaultPrevented || event.target.matches(TYPED)) return;
    if (event.key === "Enter" && event.target.matches(`${PRESSED}, input`)) return;
    if (all("[popover]").some((each) => each.matches(":popover-open"))) return;
    if (event.key === "?") return one("#key-help").showPopover();
    const named = `[data-key="${CSS.escape(event.key)}"]`;
    const pressed = all(`button${named}, a${named}`).find(seen);
    const chosen = pressed ? null : choiceOf(named);
    if (!pressed && !chosen) return;
    event.preventDefault();
    if (pressed) pressed.click();
    else choose(chosen);
  });

  // What the keys of this page do; what one has no words of its own for is left out.
  const helpRow = ([key, what]) => {
    const term = document.createElement("dt"), text = document.createElement("dd");
    for (const each of key.split(" ")) {
      term.append(Object.assign(document.createElement("kbd"), { textContent: each }), " ");
    }
    text.textContent = what;
    return [term, text];
  };
  const wordsOf = (element) => {
    const copy = (element.matches("input") ? element.closest("label") : element).cloneNode(true);
    all("kbd, .unseen, .optional", copy).forEach((each) => each.remove());
    return copy.textContent.replace(/\s+/g, " ").trim();
  };
  one("#key-help").addEventListener("beforetoggle", (event) => {
    if (event.newState !== "open") return;
    const rows = [["?", _("Show the keys of this page")], ["Tab", _("Go to the next control")], ["Esc", _("Close what is open")]];
    if (one("textarea[data-enter]")) rows.push(["Enter", _("Ask")], ["Shift Enter", _("Begin a new line")]);
    if (one("#beside")) rows.push(["← →", _("Go to the quote before or after")]);
    const own = all("[data-key]").filter((each) => seen(each) && document.body.dataset.keys !== "off");
    const questions = new Map();
    for (const each of own.filter(wordsOf)) {
      const question = each.matches("input") ? each.closest("fieldset") : each;
      questions.set(question, [...(questions.get(question) ?? []), each]);
    }
    // The keys of a question are one row, with what each of them chooses.
    for (const [question, choices] of questions) {
      const legend = one("legend", question), words = choices.map(wordsOf).join(", ");
      rows.push([choices.map((each) => each.dataset.key).join(" "), legend ? `${wordsOf(legend)}: ${words}` : words]);
    }
    const title = document.createElement("h2"), list = document.createElement("dl");
    title.textContent = _("Keys");
    list.append(...rows.flatMap(helpRow));
    event.target.replaceChildren(title, list);
  });

  // <input data-filter="#list">: only what has these words in it stays.
  document.addEventListener("input", (event) => {
    const { filter } = event.target.dataset;
    if (!filter) return;
    const list = one(filter).closest("details");
    if (list) list.open = true;
    const words = event.target.value.toLowerCase().split(/\s+/);
    for (const each of all(`${filter} > li, ${filter} > label`)) {
      each.hidden = !words.every((word) => each.textContent.toLowerCase().includes(word));
    }
  });

  // <form data-preview="/address">: what a follow-up question will be searched as, to be changed.
  const preview = one("form[data-preview]");
  if (preview) {
    const asked = one("[name=question]", preview), part = one(".preview", preview);
    const searched = one("#will-search");
    const exact = Object.assign(document.createElement("input"), { type: "hidden", name: "exact", value: "yes", disabled: true });
    preview.append(exact);
    let pause = 0;
    asked.addEventListener("input", () => {
      clearTimeout(pause);
      exact.disabled = true;
      pause = setTimeout(async () => {
        const question = asked.value.trim();
        const answer = await fetch(`${preview.dataset.preview}?question=${encodeURIComponent(question)}`).catch(() => null);
        if (!answer?.ok || question !== asked.value.trim()) return;
        searched.value = await answer.text();
        part.hidden = !question || searched.value === question;
      }, 250);
    });
    searched.addEventListener("input", () => { exact.disabled = false; });
    preview.addEventListener("submit", () => { if (!exact.disabled) asked.value = searched.value; });
  }

  // <button data-copy="/answers/ID.md">: the text at the address goes to the clipboard.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const text = fetch(button.dataset.copy).then((answer) => {
      if (!answer.ok) throw new Error(String(answer.status));
      return answer.text();
    });
    try {
      await copyText(await text);
      say(_("Copied as Markdown, with its sources."));
    } catch {
      say(_("This could not be copied: save it instead."));
    }
  });
  // Browsers have the clipboard only over https and on this machine.
  const copyText = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    if (!copied) throw new Error("not copied");
  };

  // Where Enter sends: a question is one sentence.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.repeat) return;
    if (!event.target.matches("textarea[data-enter]")) return;
    event.preventDefault();
    event.target.form.requestSubmit();
  });

  const choiceOf = (named) => {
    const questions = all("main fieldset").filter((each) => one(`input${named}`, each) && seen(each));
    const here = questions.find((each) => each.contains(document.activeElement));
    const open = questions.find((each) => !one("input:checked", each));
    const question = here || open || questions.at(-1);
    return question && one(`input${named}`, question);
  };

  const choose = (input) => {
    input.checked = true;
    input.dispatchEvent(new Event("change", { bubbles: true }));
    const questions = all("main form fieldset").filter((each) => one("input[data-key]", each) && seen(each));
    const after = questions[questions.indexOf(input.closest("fieldset")) + 1];
    const next = after && (one("input:checked", after) || one("input", after));
    (next || input).focus();
  };

  // Questions that depend on another of the page are shown where their condition holds.
  const showConditional = () => {
    const those = all("[data-when]");
    for (let pass = 0, moved = true; moved && pass <= those.length; pass++) {
      moved = false;
      for (const each of those) {
        const inputs = all(`[name="${CSS.escape(each.dataset.when)}"]`, each.closest("form"));
        const said = inputs.filter((input) => (input.type === "radio" ? input.checked : input.value.trim()));
        const allowed = JSON.parse(each.dataset.is);
        const met = said.length > 0 && !inputs[0].closest("[data-when][hidden]")
          && (!allowed.length || said.every((input) => allowed.includes(input.value)));
        moved ||= each.hidden === met;
        each.hidden = !met;
      }
    }
  };

  // Drafts: each change is saved in this browser at once and on the server soon after.
  const form = () => one("form[data-draft]");
  const place = (its) => `draft ${its.dataset.draft} ${its.elements.page?.value ?? ""}`;
  const kept = (sentence) => { const at = one("#kept"); if (at) at.textContent = sentence; };
  const NOT_IN = _("You are not in any more. Open an invite link in another tab; what you typed stays here.");
  const LOST = _("No connection. What you typed is kept in this browser, and sent again.");
  let waiting = 0;

  const changed = (its) => {
    const entries = [...new FormData(its)].filter(([name]) => name !== "token");
    try { localStorage.setItem(place(its), JSON.stringify(entries)); } catch { /* full, or refused */ }
    kept("");
    clearTimeout(waiting);
    waiting = setTimeout(save, 1200);
  };

  const save = async () => {
    const its = form();
    if (!its) return;
    clearTimeout(waiting);
    const here = place(its), sent = localStorage.getItem(here);
    const body = new URLSearchParams(new FormData(its));
    body.set("do", "draft");
    try {
      const answer = await fetch(its.action, { method: "POST", body });
      if (answer.status === 401) return kept(NOT_IN);
      if (!answer.ok) throw new Error(String(answer.status));
      const late = (await answer.text()) === "late";
      if (localStorage.getItem(here) === sent) localStorage.removeItem(here);
      kept(late ? _("Saved. The time for this task ran out: hand it in all the same.") : _("Saved"));
    } catch {
      kept(LOST);
      waiting = setTimeout(save, 5000);
    }
  };

  const restored = (its) => {
    const before = localStorage.getItem(place(its));
    if (!before) return;
    const values = new Map();
    for (const [name, value] of JSON.parse(before)) values.set(name, [...(values.get(name) ?? []), value]);
    for (const input of its.elements) {
      if (!input.name || ["hidden", "submit", "button"].includes(input.type)) continue;
      const said = values.get(input.name) ?? [];
      if (["radio", "checkbox"].includes(input.type)) input.checked = said.includes(input.value);
      else if (said.length) input.value = said[0];
    }
    save();
  };

  // What was said to be missing from a task is no longer red once it is filled in.
  const clearProblem = (input) => {
    const wrong = input.closest("#task .wrong, #task .claim-row");
    if (!wrong || !input.value.trim()) return;
    wrong.classList.remove("wrong");
    all(".problem-text", wrong).forEach((each) => each.remove());
    if (!one("#task .problem-text")) one("#task .bar > .notice.bad")?.remove();
  };

  for (const kind of ["input", "change"]) {
    document.addEventListener(kind, (event) => {
      const its = event.target.form;
      if (its) { showConditional(); highlight(); clearProblem(event.target); }
      if (its && its === form()) changed(its);
    });
  }
  window.addEventListener("online", save);
  document.addEventListener("submit", (event) => {
    if (event.target.action.endsWith("/leave") && !event.target.action.includes("/tasks/")) localStorage.clear();
  });

  // Steps of a task are swapped in; after an error the page stays as it is.
  document.addEventListener("swap:answered", (event) => {
    const { form: its, request } = event.detail;
    if (request.status >= 400 && request.status !== 409) {
      event.preventDefault();
      say(request.status === 401 ? NOT_IN : request.status === 413
        ? _("That is more than can be sent at once. Shorten it, then send it again.")
        : _("That could not be taken just now. What you typed is kept: send it again in a moment."));
      return;
    }
    localStorage.removeItem(place(its));
    clearTimeout(waiting);
    const { pathname, search } = new URL(request.responseURL);
    if (!pathname.startsWith("/tasks/")) {
      event.preventDefault();
      location.assign(pathname + search);
    }
  });
  document.addEventListener("swap:failed", () => {
    say(LOST);
    waiting = setTimeout(save, 5000);
  });
  document.addEventListener("swap:done", () => {
    ready();
    begin();
  });

  // Claims: a selected part of the answer becomes a row beside the sentences.
  const spans = (text) => all("[data-at]", text).filter((each) => each.firstChild);
  const points = (text) => [...text].length;
  const units = (text, count) => [...text].slice(0, count).join("").length;

  const marked = () => {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed) return null;
    const range = selection.getRangeAt(0);
    const text = all("[data-text]").find((each) => range.intersectsNode(each));
    const claims = text && one(`[data-claims="${text.dataset.text}"]`);
    if (!claims) return null;
    let start = null, end = null;
    for (const span of spans(text)) {
      const node = span.firstChild;
      if (!range.intersectsNode(node)) continue;
      const from = range.startContainer === node ? range.startOffset : 0;
      const to = range.endContainer === node ? range.endOffset : node.length;
      if (from >= to) continue;
      start ??= Number(span.dataset.at) + points(node.data.slice(0, from));
      end = Number(span.dataset.at) + points(node.data.slice(0, to));
    }
    if (start === null) return null;
    const words = [...spans(text).map((each) => each.textContent).join("")].slice(start, end).join("");
    start += points(words) - points(words.trimStart());
    end -= points(words) - points(words.trimEnd());
    return start < end ? { claims, start, end, words: words.trim(), range } : null;
  };

  const marker = document.createElement("button");
  marker.type = "button";
  marker.className = "button primary tiny marker";
  marker.addEventListener("pointerdown", (event) => event.preventDefault());
  marker.addEventListener("click", () => {
    const found = marked();
    marker.remove();
    if (found) { addRow(found); getSelection().removeAllRanges(); }
  });
  let looking = 0;
  document.addEventListener("selectionchange", () => {
    clearTimeout(looking);
    looking = setTimeout(() => {
      const found = marked();
      if (!found) return marker.remove();
      marker.textContent = found.claims.dataset.mark;
      const box = found.range.getBoundingClientRect();
      marker.style.top = `${box.bottom + scrollY + 6}px`;
      marker.style.left = `${Math.max(8, Math.min(box.left + scrollX, innerWidth - 160))}px`;
      document.body.append(marker);
    }, 150);
  });

  let added = 0;
  const addRow = ({ claims, start, end, words }) => {
    const rows = all(".claim-row", claims);
    const same = rows.find((row) => Number(row.dataset.start) === start && Number(row.dataset.end) === end);
    const row = same ?? one("template", claims).content.firstElementChild.cloneNode(true);
    if (!same) {
      const number = Number(claims.dataset.claims) * 100000 + 50000 + added++;
      for (const input of all("input", row)) {
        input.name = input.name.replace(".NEW.", `.${number}.`);
        if (input.name.endsWith(".start")) input.value = start;
        if (input.name.endsWith(".end")) input.value = end;
      }
      row.dataset.start = start;
      row.dataset.end = end;
      one(".claim-text", row).textContent = words;
      const after = rows.find((each) => Number(each.dataset.start) > start);
      one(".claim-rows", claims).insertBefore(row, after ?? null);
    }
    one("input[type=radio]", row).focus();
    row.scrollIntoView({ block: "center" });
  };

  const highlight = () => {
    if (!window.Highlight || !one("[data-claims]")) return;
    const ranges = [];
    for (const claims of all("[data-claims]")) {
      const text = one(`[data-text="${claims.dataset.claims}"]`);
      if (!text) continue;
      const said = "input[type=radio]:not([value='']):checked, input[type=checkbox]:checked";
      for (const row of all(".claim-row", claims).filter((each) => one(said, each))) {
        for (const span of spans(text)) {
          const at = Number(span.dataset.at), node = span.firstChild, size = points(node.data);
          const from = Math.max(row.dataset.start - at, 0), to = Math.min(row.dataset.end - at, size);
          if (from >= to) continue;
          const range = new Range();
          range.setStart(node, units(node.data, from));
          range.setEnd(node, units(node.data, to));
          ranges.push(range);
        }
      }
    }
    CSS.highlights.set("claimed", new Highlight(...ranges));
  };

  // The undo button is shown for a few seconds; later the history can correct the judgement.
  const countDown = (undo) => {
    undo.dataset.counting = "";
    setTimeout(() => {
      if (undo.matches(":hover, :focus-within")) countDown(undo);
      else undo.remove();
    }, Number(undo.dataset.seconds) * 1000);
  };

  const ready = () => {
    marker.remove();
    if (form()) restored(form());
    showConditional();
    highlight();
    all("[data-seconds]").forEach(countDown);
    one(".wrong input, .wrong textarea")?.focus();
  };
  const begin = () => {
    if (one(".wrong")) return;
    window.scrollTo(0, 0);
    one("#main").focus({ preventScroll: true });
  };
  ready();
  // Set up a step that was loaded as a page of its own like one that was swapped in.
  if (form() && new URLSearchParams(location.search).has("page")) begin();
})();
