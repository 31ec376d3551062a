// The filters of the list: they hide rows, and are kept in the address.
const form = document.querySelector(".filters");
const count = document.querySelector("#count");
const rows = [...document.querySelectorAll("#tools tbody tr")].map((row) => ({ row, text: row.textContent.toLowerCase() }));

function apply() {
  const { q = "", ...labels } = Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { row, text } of rows) {
    const fits = words.every((word) => text.includes(word))
      && Object.entries(labels).every(([name, value]) => row.dataset[name].split("\n").includes(value));
    row.hidden = !fits;
    shown += fits;
  }
  count.textContent = shown === rows.length ? `${shown} tools` : `${shown} of ${rows.length} tools`;
  const query = new URLSearchParams(q ? { q, ...labels } : labels).toString();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
}

for (const [name, value] of new URLSearchParams(location.search)) {
  if (form.elements[name]) form.elements[name].value = value;
}
form.addEventListener("input", apply);
form.addEventListener("submit", (event) => event.preventDefault());
apply();
