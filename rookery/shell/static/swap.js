// Parts of a page that are fetched again and put in place: a task that is handed in, lists that grow
// while work goes on, and, for other scripts, any page. Without scripts whole pages do the same.
"use strict";
(() => {
  // XMLHttpRequest makes a document of HTML without running its scripts, and so without a policy for
  // trusted types, which fetch and DOMParser would need.
  const send = (method, address, body) => new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, address);
    request.responseType = "document";
    request.onload = () => resolve(request);
    request.onerror = () => reject(new Error("no connection"));
    request.send(body);
  });
  window.fetchPage = async (address) => (await send("GET", address)).response;

  // Put the part with this id of a fetched page in place; what had the focus keeps it.
  const swap = (page, id) => {
    const part = page?.getElementById(id);
    if (!part) return false;
    const focused = document.activeElement?.id;
    document.getElementById(id).replaceWith(part);
    document.title = page.title;
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    return true;
  };

  // <div id="parts" data-poll="/address" data-every="1000">: as long as the part says so itself.
  // With data-reload="#other", once the other part is there the whole page is loaded.
  const poll = (id) => {
    const part = document.getElementById(id);
    if (!part?.dataset.poll) return;
    setTimeout(async () => {
      const page = await fetchPage(part.dataset.poll).catch(() => null);
      const { reload } = part.dataset;
      if (reload && page?.querySelector(reload)) return location.reload();
      swap(page, id);
      poll(id);
    }, Number(part.dataset.every));
  };
  for (const part of document.querySelectorAll("[data-poll]")) poll(part.id);

  // <form data-swap="main">: the answer's part takes the place of this page's. Listeners of
  // swap:answered may prevent it; swap:failed and swap:done follow.
  let sending = false;
  let here = location.pathname + location.search;
  const tell = (name, form, detail) => (form.isConnected ? form : document).dispatchEvent(
    new CustomEvent(`swap:${name}`, { bubbles: true, cancelable: true, detail: { form, ...detail } }),
  );
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.dataset.swap || event.defaultPrevented) return;
    event.preventDefault();
    if (sending) return;
    sending = true;
    try {
      const body = new URLSearchParams(new FormData(form, event.submitter));
      const request = await send("POST", form.action, body);
      if (!tell("answered", form, { request })) return;
      if (!swap(request.response, form.dataset.swap)) throw new Error("no page");
      const { pathname, search } = new URL(request.responseURL);
      if (pathname + search !== here) history.pushState(null, "", pathname + search);
      here = pathname + search;
      tell("done", form, {});
    } catch {
      tell("failed", form, {});
    } finally {
      sending = false;
    }
  });
  window.addEventListener("popstate", () => {
    if (location.pathname + location.search !== here) location.reload();
  });
})();
