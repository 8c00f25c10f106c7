// Values as a person reads them.

// What would be invisible, or would make other text look like something it is not.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb]/g;

function symbol(character) {
  const code = character.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
}

export const visible = (text) => text.replace(UNSEEN, symbol);

export const oneLine = (text) => visible(text).replace(/[\t\n]/g, symbol);

// The text of a part of a path; one that is broken stays as it is.
export function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const grouped = new Intl.NumberFormat("en");

export const number = (value) => grouped.format(value);

// Offsets are zero-padded byte positions.
export const offset = (text) => number(Number(text));

export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const units = ["KB", "MB", "GB", "TB", "PB"];
  let value = bytes;
  let unit = -1;
  do {
    value /= 1000;
    unit += 1;
  } while (value >= 999.5 && unit < units.length - 1);
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function ago(ms, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - ms) / 1000));
  if (seconds < 5) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

export const moment = (ms) => new Date(ms).toLocaleString();

export function hex(bytes, limit) {
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, limit); at += 16) {
    const row = Array.from(bytes.subarray(at, Math.min(at + 16, limit)));
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "\u00b7"));
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(47)}  ${letters.join("")}`);
  }
  return lines.join("\n");
}
