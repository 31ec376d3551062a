// Keeps the element #live of a page as the server has it now, each second while the page is seen.
const EVERY_MS = 1000;
const live = document.querySelector("#live");

async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#live");
    if (fresh.innerHTML === live.innerHTML) return;
    const focused = live.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    live.innerHTML = fresh.innerHTML;
    [...live.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
    document.dispatchEvent(new Event("refreshed"));
  } catch {
    live.querySelector("[role=status]").textContent = "The server does not answer. Is it still running? Reload the page.";
  }
}

setInterval(refresh, EVERY_MS);
