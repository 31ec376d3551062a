// The page of one request: its arguments or its result as a form and as JSON, and the decision.
import { Form, isExact } from "./form.js";

const decision = document.querySelector("#decision");
const outcome = document.querySelector("#outcome");
const json = document.querySelector("#json");
const { kind, schema } = decision?.dataset ?? {};
const form = json && new Form(document.querySelector("#form"), JSON.parse(schema), (edited) => {
  json.value = JSON.stringify(edited, null, 2);
});

function showText() {
  try {
    const typed = JSON.parse(json.value);
    form.element.inert = !isExact(typed);
    if (isExact(typed)) form.show(typed);
  } catch {
    form.element.inert = true;
  }
}

function read(name) {
  if (name === "deny") return { action: "deny", reason: decision.elements.reason.value };
  if (name === "answer") return { action: "answer", value: JSON.parse(json.value) };
  const edited = json && json.value !== json.defaultValue ? { arguments: JSON.parse(json.value) } : {};
  return { action: "approve", always: name === "always", ...edited };
}

async function decide(event) {
  let body;
  try {
    body = JSON.stringify(read(event.currentTarget.name));
  } catch {
    return show("The text is no JSON. Nothing is sent.", true);
  }
  decision.firstElementChild.disabled = true;
  show("Sending …", false);
  try {
    const headers = { "content-type": "application/json" };
    const found = await (await fetch(location.href, { method: "POST", body, headers })).json();
    show(found.text, found.is_error);
    form?.mark(found.problems ?? []);
    decision.firstElementChild.disabled = !found.is_error;
  } catch {
    show("The server does not answer. Is it still running?", true);
    decision.firstElementChild.disabled = false;
  }
}

function show(text, isError) {
  outcome.textContent = text;
  outcome.className = isError ? "problem" : "";
}

function enable() {
  decision.firstElementChild.disabled = document.querySelector("#status").dataset.state !== "waiting";
}

if (decision) {
  if (json) {
    if (kind === "result") json.value = JSON.stringify(form.value, null, 2);
    showText();
    json.addEventListener("input", showText);
  }
  decision.querySelectorAll("button[name]").forEach((button) => button.addEventListener("click", decide));
  decision.addEventListener("submit", (event) => event.preventDefault()); // Enter in a field decides nothing
  document.addEventListener("refreshed", enable);
  enable();
}
