// Forms whose fields are sent as JSON: the page shows the answer, and goes where it says.
const outcome = document.querySelector("#outcome");

async function send(event) {
  event.preventDefault();
  const form = event.currentTarget;
  const body = JSON.stringify(Object.fromEntries(new FormData(form)));
  const button = form.querySelector("button");
  button.disabled = true;
  [outcome.textContent, outcome.className] = ["Working …", ""];
  let found;
  try {
    const headers = { "content-type": "application/json" };
    found = await (await fetch(form.getAttribute("action"), { method: "POST", body, headers })).json();
  } catch {
    found = { is_error: true, text: "The server does not answer. Is it still running?" };
  }
  button.disabled = false;
  if (found.is_error) [outcome.textContent, outcome.className] = [found.text, "problem"];
  else location.assign(found.address || location.href);
}

document.querySelectorAll("form.post").forEach((form) => form.addEventListener("submit", send));
