// Names for what the theme leaves without: bars of buttons on code, and tables that scroll.
document.addEventListener("DOMContentLoaded", () => {
  const name = () => {
    document.querySelectorAll(".md-code__nav").forEach((bar, place) => bar.setAttribute("aria-label", `Code ${place + 1}`));
    document.querySelectorAll(".md-typeset__scrollwrap").forEach((table) => (table.tabIndex = 0));
  };
  new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
  name();
});
