// A button that copies a text: one below each `.code pre`.
export function addCopyButton(pre) {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Copy" });
  button.setAttribute("aria-label", `Copy ${pre.getAttribute("aria-label")}`);
  button.addEventListener("click", async () => {
    getSelection().selectAllChildren(pre); // without https, a browser lets nobody write: the text is selected then
    button.textContent = await navigator.clipboard?.writeText(pre.textContent).then(() => "Copied", () => null) ?? "Selected: press Ctrl+C";
  });
  pre.after(button);
}

document.querySelectorAll(".code pre").forEach(addCopyButton);
