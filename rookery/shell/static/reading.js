// Show the progress of an answer; reload the page at its end. Without this script the page reloads
// every two seconds. Text is only set as text, never as HTML.
(() => {
  "use strict";
  const page = document.querySelector("[data-events]");
  if (!page || !window.EventSource) {
    if (page) setTimeout(() => location.reload(), 2000);
    return;
  }
  const list = document.getElementById("steps");
  const status = document.getElementById("status");
  const draft = document.getElementById("draft");
  const ends = ["answered", "declined", "stopped"];
  const says = {
    asked: _("Waiting for its turn"),
    begun: _("Looking for evidence"),
    searching: _("Searching"),
    opening: _("Reading"),
    writing: _("Writing"),
    quote: _("Checking the quotes"),
  };
  const tries = { left: 2 };

  const part = (name, text) => {
    const span = document.createElement("span");
    span.className = name;
    span.textContent = text;
    return span;
  };

  const step = (said) => {
    const known = [...list.children].find((each) => each.dataset.key === said.key);
    const item = known || document.createElement("li");
    item.className = `step ${said.kind}`;
    item.dataset.key = said.key;
    item.replaceChildren(part("step-text", said.text), " ", part("step-more", said.more));
    if (!known) list.append(item);
  };

  const show = (said) => {
    if (says[said.kind]) status.textContent = says[said.kind];
    if (said.kind === "begun") {
      list.replaceChildren();
      draft.hidden = true;
    } else if (said.kind === "writing") {
      draft.textContent = said.text;
      draft.hidden = false;
    } else if (said.kind !== "asked") {
      step(said);
    }
  };

  const after = Number(page.dataset.after);
  const stream = new EventSource(`${page.dataset.events}${after < 0 ? "" : `?after=${after}`}`);
  stream.onmessage = (message) => {
    const said = JSON.parse(message.data);
    tries.left = 2;
    if (ends.includes(said.kind)) {
      stream.close();
      location.replace(location.pathname);
    } else {
      show(said);
    }
  };
  // The browser reconnects a stream that breaks, but not one that is refused.
  stream.onerror = () => {
    tries.left -= 1;
    if (stream.readyState === EventSource.CLOSED || tries.left <= 0) {
      stream.close();
      status.textContent = _("The connection is lost; looking again");
      setTimeout(() => location.reload(), 3000);
    }
  };
  addEventListener("pagehide", () => stream.close());
})();
