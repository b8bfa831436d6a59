// Keeps the part of the page that changes as it is on the node, as long as somebody can see it.
"use strict";
(() => {
  const live = document.getElementById("live");
  const state = document.getElementById("state");
  const retryMs = 5000;
  let source = null;
  let retry = 0;

  const tell = (how) => {
    state.textContent = state.dataset[how];
    state.className = how;
  };

  // What is being copied, or has the focus, is left to whoever does it.
  const replace = (html) => {
    const selection = getSelection();
    if (!selection.isCollapsed && live.contains(selection.anchorNode)) return;
    const focused = live.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    live.innerHTML = html; // made and escaped by the node
    if (focused === null) return;
    for (const link of live.querySelectorAll("a[href]")) {
      if (link.getAttribute("href") === focused) {
        link.focus();
        return;
      }
    }
  };

  const close = () => {
    clearTimeout(retry);
    if (source) source.close();
    source = null;
  };

  const open = () => {
    close();
    source = new EventSource(live.dataset.events);
    source.addEventListener("view", (event) => {
      tell("live");
      replace(JSON.parse(event.data));
    });
    source.onerror = () => {
      tell("lost");
      if (source && source.readyState === EventSource.CLOSED) retry = setTimeout(open, retryMs);
    };
  };

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", () => { if (!source && !document.hidden) open(); }); // back from another page
  if (!document.hidden) open();
})();
