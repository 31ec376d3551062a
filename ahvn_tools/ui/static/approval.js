// The page of one request: its arguments or its result as a form and as JSON, and the decision.
import { Form, isExact } from "./form.js";
import { refresh } from "./live.js";

const SOON_MS = 300; // the call has gone on by then
const decision = document.querySelector("#decision");
const outcome = document.querySelector("#outcome");
const json = document.querySelector("#json");
const { kind, schema, digest } = decision?.dataset ?? {};
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

/** The decision as JSON text, with the digest of what is shown. Typed text is sent as it is: large integers would lose digits. */
function read(name) {
  if (name === "deny") return JSON.stringify({ action: "deny", digest, reason: decision.elements.reason.value });
  if (json) JSON.parse(json.value);
  if (name === "answer") return `{"action": "answer", "digest": "${digest}", "value": ${json.value}}`;
  const edits = json && json.value !== json.defaultValue ? `, "arguments": ${json.value}` : "";
  return `{"action": "approve", "digest": "${digest}", "always": ${name === "always"}${edits}}`;
}

async function decide(event) {
  let body;
  try {
    body = read(event.currentTarget.name);
  } catch {
    return show("The text is no JSON. Nothing is sent.", true);
  }
  decision.firstElementChild.disabled = true;
  show("Sending …", false);
  try {
    const headers = { "content-type": "application/json" };
    const found = await (await fetch(location.href, { method: "POST", body, headers })).json();
    show(found.text, found.is_error);
    await refresh();
    update();
    setTimeout(refresh, SOON_MS);
  } catch {
    show("The server does not answer. Is it still running?", true);
    decision.firstElementChild.disabled = false;
  }
}

function show(text, isError) {
  outcome.textContent = text;
  outcome.className = isError ? "problem" : "";
}

/** Show the state of the request: whether it can be decided, and why the last decision was refused. */
function update() {
  const { state, problems } = document.querySelector("#status").dataset;
  decision.firstElementChild.disabled = state !== "waiting";
  form?.mark(JSON.parse(problems));
}

if (decision) {
  if (json) {
    if (kind === "result") json.value = JSON.stringify(form.value, null, 2);
    showText();
    json.addEventListener("input", showText);
  }
  decision.querySelectorAll("button[name]").forEach((button) => button.addEventListener("click", decide));
  decision.addEventListener("submit", (event) => event.preventDefault()); // Enter in a field decides nothing
  document.addEventListener("refreshed", update);
  update();
}
