// Keeps the element #live of a page, and its title, as the server has them now.
const EVERY_MS = 1000;
const live = document.querySelector("#live");

export async function refresh() {
  try {
    const answer = await fetch(location.href);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("#live");
    if (!fresh) throw new Error(page.querySelector("main p").textContent);
    if (fresh.innerHTML === live.innerHTML) return;
    const focused = live.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    [live.innerHTML, document.title] = [fresh.innerHTML, page.title];
    [...live.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
    document.dispatchEvent(new Event("refreshed"));
  } catch (error) {
    const isAbsent = error instanceof TypeError; // of fetch
    live.querySelector("p").textContent = isAbsent ? "The server does not answer. Is it still running? Reload the page." : error.message;
  }
}

async function repeat() {
  await refresh(); // a slow answer is not asked for again
  setTimeout(repeat, EVERY_MS);
}

setTimeout(repeat, EVERY_MS);
