// From bytes of a stream to messages, and from messages to elements.

import { el } from "./dom.js";
import { elements, layout } from "./json.js";
import { hex, number, oneLine, size, visible } from "./text.js";

export const MOST_MESSAGES = 400;
const KEPT_CHARACTERS = 64 * 1024;
const SHOWN_CHARACTERS = 2_000;
const COMPACT_CHARACTERS = 300;
const SHOWN_BYTES = 512;

const encoder = new TextEncoder();

// A piece of a string keeps the whole alive; what is kept long must be a string of its own.
const owned = (text) => new TextDecoder().decode(encoder.encode(text));

// A message keeps a bounded text, however large it was.
export function message(kind, text, offset, bytes) {
  const kept = text.length > KEPT_CHARACTERS ? owned(text.slice(0, KEPT_CHARACTERS)) : text;
  return { kind, text: kept, offset, size: bytes };
}

// The last messages of a JSON stream's array that starts at an offset. Stored, each message is
// followed by two bytes, so that a position in the array tells the offset.
export function fromArray(text, start) {
  const ascii = encoder.encode(text).length === text.length;
  const length = (piece) => (ascii ? piece.length : encoder.encode(piece).length);
  const found = [];
  let bytes = 0;
  let counted = 0;
  for (const [from, to] of elements(text).slice(-MOST_MESSAGES)) {
    bytes += length(text.slice(counted, from));
    const piece = text.slice(from, to);
    const its = length(piece);
    found.push(message("json", piece, start + bytes - 1, its));
    bytes += its;
    counted = to;
  }
  return found;
}

// Other content types have no message boundaries on the wire: text is shown line by line, what is
// no text as the bytes of one read.
export function fromBytes(bytes, start, contentType) {
  if (bytes.length === 0) return [];
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return [message("binary", hex(bytes, SHOWN_BYTES), start, bytes.length)];
  }
  const json = /json/i.test(contentType);
  const ascii = text.length === bytes.length;
  const found = [];
  let at = start;
  for (const line of text.split(/(?<=\n)/)) {
    const its = ascii ? line.length : encoder.encode(line).length;
    const shown = line.replace(/\r?\n$/, "");
    found.push(message(json && isJson(shown) ? "json" : "text", shown, at, its));
    at += its;
  }
  return found;
}

// Only what is JSON may be laid out anew; any other text is shown as it is.
function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export function fromBase64(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at += 1) bytes[at] = raw.charCodeAt(at);
  return bytes;
}

// The elements of a text. A compact one has one line, others break where `width` is exceeded.
export function body(kind, text, width) {
  if (kind !== "json") return [width === Infinity ? oneLine(text) : visible(text)];
  return layout(text, width).map(([token, piece]) => {
    const shown = visible(piece);
    return token === "" ? shown : el("span", { class: token }, shown);
  });
}

// One row. Past a bound the text is cut, and shown as far as it is kept when asked for.
export function row(message, width, compact) {
  const limit = compact ? COMPACT_CHARACTERS : SHOWN_CHARACTERS;
  const pre = el("pre", { class: "message-body" });
  const item = el(
    "li",
    { class: "message" },
    el("span", { class: "offset", title: `offset ${message.offset}, ${size(message.size)}` }, number(message.offset)),
    pre,
  );
  pre.append(...body(message.kind, message.text.slice(0, limit), compact ? Infinity : width));
  if (message.text.length > limit || message.kind === "binary" || message.size > 4 * KEPT_CHARACTERS) {
    pre.classList.add("cut");
    const rest = el("span", { class: "rest" });
    item.append(rest);
    if (message.text.length > limit) {
      const more = el("button", { class: "quiet" }, "Show more");
      more.addEventListener("click", () => {
        pre.replaceChildren(...body(message.kind, message.text, width));
        more.remove();
      });
      rest.append(more);
    }
    rest.append(el("span", { class: "dim small" }, `of ${size(message.size)}`));
  }
  return item;
}
