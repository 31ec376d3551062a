// A form for a value that a JSON Schema describes. It shows a JSON value and reports edits of it: it keeps no other value,
// so what it cannot show stays as it is. `undefined` is a member that is not sent.
import { h, render } from "./vendor/preact.mjs";
import htm from "./vendor/htm.mjs";

const html = htm.bind(h);
const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const NOT_IN_TEXT_FIELDS = /[\0\r]/;
const MAX_DEPTH = 8;
const MAX_ALTERNATIVES = 64;
const MAX_BLANKS = 1000; // how many values a value that the form begins with may have: schemas may be hostile

const toPointer = (path) => path.map((step) => `/${String(step).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const has = (object, name) => Object.hasOwn(object, name);
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function typeOf(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value === "number" && Number.isInteger(value) ? "integer" : typeof value;
}

/** Whether JavaScript keeps all numbers of a value: it loses digits of large integers. */
export function isExact(value) {
  if (typeof value === "number") return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
  return typeof value !== "object" || value === null || Object.values(value).every(isExact);
}

/** A copy of a value with another value at a path; without the member there if that is `undefined`. */
function put(value, [step, ...rest], inner) {
  if (step === undefined) return inner;
  if (Array.isArray(value)) {
    const items = [...value];
    const item = put(items[step], rest, inner);
    items.splice(step, 1, ...(item === undefined ? [] : [item]));
    return items;
  }
  const item = put(value[step], rest, inner);
  const entries = Object.entries(value).map(([name, old]) => [name, name === step ? item : old]);
  if (!has(value, step)) entries.push([step, item]);
  return Object.fromEntries(entries.filter(([, each]) => each !== undefined));
}

function merge(one, other) {
  const merged = { ...one, ...other };
  if (one.properties && other.properties) merged.properties = { ...one.properties, ...other.properties };
  if (one.required && other.required) merged.required = [...new Set([...one.required, ...other.required])];
  return merged;
}

/** The forms of the values of one schema. */
class Schema {
  constructor(root) {
    this.root = root;
    this.resolved = new WeakMap();
    this.flat = new WeakMap();
  }

  resolve(schema) {
    if (!isObject(schema)) return {};
    if (!this.resolved.has(schema)) {
      this.resolved.set(schema, {}); // for a schema that is a part of itself
      this.resolved.set(schema, this.withoutReferences(schema));
    }
    return this.resolved.get(schema);
  }

  withoutReferences(schema) {
    let node = schema;
    for (let count = 0; typeof node.$ref === "string" && count < 32; count++) {
      const { $ref, ...rest } = node;
      const target = this.find($ref);
      node = { title: $ref.split("/").at(-1), ...(isObject(target) ? target : {}), ...rest };
    }
    if (!Array.isArray(node.allOf)) return node;
    const { allOf, ...rest } = node;
    return allOf.map((part) => this.resolve(part)).reduceRight((whole, part) => merge(part, whole), rest);
  }

  find(reference) {
    if (!reference.startsWith("#")) return undefined;
    let steps;
    try {
      steps = decodeURIComponent(reference.slice(1)).split("/").slice(1);
    } catch {
      return undefined;
    }
    return steps.reduce((node, step) => node?.[step.replaceAll("~1", "/").replaceAll("~0", "~")], this.root);
  }

  /** The alternatives of a schema, without unions in them. */
  alternatives(schema) {
    const node = this.resolve(schema);
    if (!this.flat.has(node)) {
      this.flat.set(node, [{}]); // as above
      this.flat.set(node, this.listAlternatives(node));
    }
    return this.flat.get(node);
  }

  listAlternatives(node) {
    const { anyOf, oneOf, default: _default, ...shared } = node;
    const branches = anyOf ?? oneOf;
    if (Array.isArray(branches) && branches.length) {
      const parts = branches.slice(0, MAX_ALTERNATIVES).flatMap((branch) => this.alternatives(branch));
      return parts.slice(0, MAX_ALTERNATIVES).map((part) => merge(shared, part));
    }
    if (has(node, "enum") || has(node, "const")) return [node];
    if (Array.isArray(node.type)) return node.type.map((type) => ({ ...node, type }));
    return node.nullable === true ? [{ ...node, nullable: false }, { type: "null" }] : [node];
  }

  /** How far a value is from an alternative: its type and its constants count most. */
  distance(value, node, depth = 0) {
    if (has(node, "const")) return same(value, node.const) ? 0 : 10;
    if (Array.isArray(node.enum)) return node.enum.some((option) => same(option, value)) ? 0 : 10;
    const [wanted, actual] = [kindOf(node), typeOf(value)];
    if (wanted && wanted !== actual && !(wanted === "number" && actual === "integer")) return 100;
    if (depth > 2) return 0;
    if (actual === "array") return value.length ? this.nearest(value[0], itemSchema(node, 0), depth) / 10 : 0;
    if (actual !== "object") return wanted ? 0 : 1;
    const absent = (node.required ?? []).filter((name) => !has(value, name)).length;
    return Object.entries(value).reduce((sum, [name, inner]) => {
      if (!has(node.properties ?? {}, name)) return sum + (node.additionalProperties === false ? 5 : node.properties ? 2 : 0.2);
      const isTag = this.alternatives(node.properties[name]).every((each) => has(each, "const") || each.enum);
      return sum + Math.min(this.nearest(inner, node.properties[name], depth), isTag ? 10 : 1);
    }, absent);
  }

  nearest(value, schema, depth) {
    return Math.min(...this.alternatives(schema).map((node) => this.distance(value, node, depth + 1)));
  }

  choose(value, nodes) {
    const distances = nodes.map((node) => this.distance(value, node));
    return distances.indexOf(Math.min(...distances));
  }

  /** The value with which a member begins. */
  blank(schema, depth = 0, budget = { left: MAX_BLANKS }) {
    const node = this.resolve(schema);
    budget.left -= 1;
    if (has(node, "default")) return structuredClone(node.default);
    const nodes = this.alternatives(node);
    const chosen = nodes.find((each) => kindOf(each) !== "null") ?? nodes[0];
    if (has(chosen, "const")) return structuredClone(chosen.const);
    if (chosen.enum?.length) return structuredClone(chosen.enum[0]);
    const required = depth > MAX_DEPTH || budget.left < 0 ? [] : chosen.required ?? [];
    const make = (name) => [name, this.blank(chosen.properties?.[name], depth + 1, budget)];
    const blanks = { object: () => Object.fromEntries(required.map(make)), array: () => [], string: () => "", boolean: () => false };
    return { ...blanks, integer: () => 0, number: () => 0 }[kindOf(chosen)]?.() ?? null;
  }
}

function kindOf(node) {
  if (typeof node.type === "string") return node.type.toLowerCase();
  if (node.properties || node.additionalProperties || node.required) return "object";
  return node.items || node.prefixItems ? "array" : "";
}

const itemSchema = (node, index) => node.prefixItems?.[index] ?? (Array.isArray(node.items) ? node.items[index] : node.items) ?? {};

function memberSchema(node, name) {
  if (has(node.properties ?? {}, name)) return node.properties[name];
  const schemas = Object.values(node.patternProperties ?? {}); // their patterns may be of another dialect, or hostile
  return schemas.length === 1 ? schemas[0] : schemas.length ? {} : node.additionalProperties;
}

/** Which widget shows a value; any value without one of its own is shown as JSON. */
function widgetOf(node, value) {
  const kind = kindOf(node);
  if (has(node, "const") || Array.isArray(node.enum)) return "choice";
  if (kind === "object" && isObject(value)) return "object";
  if (kind === "array" && Array.isArray(value)) return "array";
  if (kind === "boolean" && typeof value === "boolean") return "boolean";
  if (kind === "null" && value === null) return "null";
  if (kind === "string" && typeof value === "string" && !NOT_IN_TEXT_FIELDS.test(value)) {
    return (node.writeOnly === true || node.format === "password") && !value.includes("\n") ? "secret" : "text";
  }
  if ((kind === "integer" || kind === "number") && (typeof value === "number" || typeof value === "string")) return "number";
  return "json";
}

const RULES = { format: "", minimum: "at least ", maximum: "at most ", minLength: "characters: at least ", maxLength: "characters: at most ",
  pattern: "matches ", minItems: "items: at least ", maxItems: "items: at most " };

function helpOf(node) {
  const rules = Object.entries(RULES).filter(([key]) => has(node, key)).map(([key, text]) => text + node[key]);
  if (has(node, "default")) rules.push(`default ${JSON.stringify(node.default)}`);
  return [node.description, rules.join(", ")].filter(Boolean).join("\n");
}

const labelOf = (node) => node.title ?? (has(node, "const") ? JSON.stringify(node.const) : node.enum ? "one of a list" : kindOf(node) || "any");

export class Form {
  /** `onChange(value)` is called after each edit. */
  constructor(element, root, onChange) {
    this.element = element;
    this.schema = new Schema(root);
    this.onChange = onChange;
    this.value = this.schema.blank(root);
    this.problems = [];
    this.drafts = new Map(); // what is typed into a field, while it is no value or another text of the value
    this.choices = new Map(); // alternatives that were chosen
  }

  /** Show another value. */
  show(value) {
    this.value = value;
    this.drafts.clear();
    this.choices.clear();
    this.draw();
  }

  /** Show problems, each with a JSON pointer and a text, at their fields. */
  mark(problems) {
    this.problems = problems;
    this.draw();
  }

  put(path, value) {
    if (value === undefined) {
      this.drafts.clear(); // items after a removed one have other pointers
      this.choices.clear();
    }
    this.value = put(this.value, path, value);
    this.onChange(this.value);
    this.draw();
  }

  draw() {
    this.shown = new Set();
    const body = this.field(this.schema.root, this.value, [], "");
    const others = this.problems.filter((problem) => !this.shown.has(problem.pointer));
    render(html`${others.map(({ pointer, text }) => html`<p class="problem">${pointer} ${text}</p>`)}${body}`, this.element);
  }

  field(schema, value, path, name, controls = null) {
    const pointer = toPointer(path);
    this.shown.add(pointer);
    const nodes = this.schema.alternatives(schema);
    const chosen = this.choices.get(pointer);
    const fits = chosen !== undefined && this.schema.distance(value, nodes[chosen]) < 100;
    const index = fits ? chosen : this.schema.choose(value, nodes);
    const problems = this.problems.filter((problem) => problem.pointer === pointer);
    const whole = this.schema.resolve(schema);
    const help = helpOf(value === undefined ? whole : { ...whole, ...nodes[index], description: whole.description ?? nodes[index].description });
    return html`<div class=${`field${problems.length ? " wrong" : ""}`} key=${pointer} role="group" aria-label=${name || "arguments"}>
      ${name && html`<div class="name">${controls}<b>${name}</b>${value !== undefined && nodes.length > 1 && this.branches(nodes, index, path, name)}</div>`}
      ${name && help && html`<p class="help">${help}</p>`}
      ${problems.map((problem) => html`<p class="problem">${problem.text}</p>`)}
      ${value !== undefined && this.widget(nodes[index], value, path, name || "arguments")}
    </div>`;
  }

  branches(nodes, index, path, name) {
    const choose = (event) => {
      const number = Number(event.target.value);
      this.choices.set(toPointer(path), number);
      this.put(path, this.schema.blank(nodes[number]));
    };
    return html`<select aria-label=${`alternative of ${name}`} value=${index} onChange=${choose}>
      ${nodes.map((node, number) => html`<option value=${number} selected=${number === index}>${labelOf(node)}</option>`)}
    </select>`;
  }

  widget(node, value, path, name) {
    const pointer = toPointer(path);
    const widget = widgetOf(node, value);
    const attributes = { "aria-label": name, "data-pointer": pointer, "data-widget": widget };
    if (widget === "object") return this.members(node, value, path);
    if (widget === "array") return this.items(node, value, path);
    if (widget === "null") return html`<code ...${attributes}>null</code>`;
    if (widget === "choice" || widget === "boolean") {
      const options = widget === "boolean" ? [true, false] : node.enum ?? [node.const];
      const index = options.findIndex((option) => same(option, value));
      return html`<select ...${attributes} value=${index} onChange=${(event) => this.put(path, options[event.target.value])}>
        ${index < 0 && html`<option value="-1" selected disabled>${JSON.stringify(value)}</option>`}
        ${options.map((option, number) => html`<option value=${number} selected=${number === index}>${typeof option === "string" ? option : JSON.stringify(option)}</option>`)}
      </select>`;
    }
    if (widget === "secret") return html`<input type="password" autocomplete="new-password" ...${attributes} value=${value} onInput=${(event) => this.put(path, event.target.value)} />`;
    if (widget === "text") {
      const rows = Math.min(value.split("\n").length + (value.length > 80), 12);
      return html`<textarea ...${attributes} rows=${rows} value=${value} onInput=${(event) => this.put(path, event.target.value)}></textarea>`;
    }
    const read = widget === "number" ? readNumber : readJSON;
    const draft = this.drafts.get(pointer);
    const parsed = draft === undefined ? undefined : read(draft);
    const isOpen = draft !== undefined && (parsed === undefined || same(parsed, value));
    const text = isOpen ? draft : widget === "number" && typeof value === "string" ? value : JSON.stringify(value, null, 2);
    const edit = (event) => {
      this.drafts.set(pointer, event.target.value);
      const typed = read(event.target.value);
      if (typed === undefined) this.draw();
      else this.put(path, typed);
    };
    const more = { ...attributes, value: text, onInput: edit, "aria-invalid": isOpen && parsed === undefined };
    if (widget === "number") return html`<input inputmode="decimal" ...${more} />`;
    return html`<textarea rows=${Math.min(text.split("\n").length + 1, 12)} spellcheck="false" ...${more}></textarea>
      ${more["aria-invalid"] && html`<p class="problem">This is no JSON, or has a number that a browser cannot keep. It is not sent.</p>`}`;
  }

  members(node, value, path) {
    const required = new Set(node.required ?? []);
    const known = [...new Set([...Object.keys(node.properties ?? {}), ...required])];
    const row = (name) => {
      const inner = has(value, name) ? value[name] : undefined;
      const schema = memberSchema(node, name);
      const send = (event) => this.put([...path, name], event.target.checked ? this.schema.blank(schema) : undefined);
      const isFixed = required.has(name) && inner !== undefined;
      const box = isFixed ? null : html`<input type="checkbox" aria-label=${`send ${name}`} checked=${inner !== undefined} onChange=${send} />`;
      return this.field(schema, inner, [...path, name], name, box);
    };
    const [open, folded] = [[], []];
    for (const name of known) (has(value, name) || required.has(name) ? open : folded).push(name);
    const others = Object.keys(value).filter((name) => !known.includes(name));
    const isOpen = node.additionalProperties || node.patternProperties || (!known.length && node.additionalProperties !== false);
    const unsent = folded.map(row);
    const wrong = folded.some((name) => this.problems.some((problem) => problem.pointer === toPointer([...path, name])));
    return html`<div class=${path.length ? "inside" : ""}>
      ${[...open, ...others].map(row)}
      ${isOpen && this.adder(node, value, path)}
      ${unsent.length > 0 && html`<details key="unsent" open=${wrong || !open.length}><summary>${unsent.length} not sent: ${folded.join(", ")}</summary>${unsent}</details>`}
      ${!known.length && !others.length && !isOpen && html`<p class="empty">There are no parameters.</p>`}
    </div>`;
  }

  adder(node, value, path) {
    const add = (event) => {
      const field = event.target.previousElementSibling;
      const name = field.value;
      if (!has(value, name)) this.put([...path, name], this.schema.blank(memberSchema(node, name)));
      field.value = "";
    };
    return html`<p key="adder"><input aria-label="name of a member to add" placeholder="name" /> <button type="button" onClick=${add}>Add a member</button></p>`;
  }

  items(node, value, path) {
    const remove = (index) => html`<button type="button" aria-label=${`remove item ${index + 1}`} onClick=${() => this.put([...path, index], undefined)}>Remove</button>`;
    const add = () => this.put([...path, value.length], this.schema.blank(itemSchema(node, value.length)));
    return html`<div class="inside">
      ${value.map((item, index) => this.field(itemSchema(node, index), item, [...path, index], `${index + 1}`, remove(index)))}
      <button type="button" onClick=${add}>Add an item</button>
    </div>`;
  }
}

/** The number that a text is, or the text itself while it is none. */
function readNumber(text) {
  const number = JSON_NUMBER.test(text) ? Number(text) : text;
  return isExact(number) ? number : text;
}

function readJSON(text) {
  try {
    const value = JSON.parse(text);
    return isExact(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
