// Light, dark, or what the system says. Runs before the page is drawn, so that it does not flash.
"use strict";
{
  let theme = null;
  try {
    theme = localStorage.getItem("quire-theme");
  } catch {
    // Storage may be blocked.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}
