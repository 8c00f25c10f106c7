// JSON as text: split and laid out without being parsed, so that numbers keep their digits, strings
// their escapes, and a message that was cut somewhere still reads.

const TOKEN = /\s*(?:([{}[\],:])|("[^"\\]*(?:\\.[^"\\]*)*"?)|([^\s{}[\],:"]+))/y;
const PUNCTUATION = new Set(["{", "}", "[", "]", ",", ":"]);
const DEEPEST_INDENT = 24;

// The elements of an array as [start, end) positions in its text.
export function elements(text) {
  const found = [];
  let depth = 0;
  let start = text.indexOf("[") + 1;
  for (let at = start; at < text.length; at += 1) {
    const character = text[at];
    if (character === '"') {
      at = endOfString(text, at);
    } else if (character === "{" || character === "[") {
      depth += 1;
    } else if (character === "}" || (character === "]" && depth > 0)) {
      depth -= 1;
    } else if (depth === 0 && (character === "," || character === "]")) {
      if (text.slice(start, Math.min(at, start + 64)).trim() || at - start > 64) found.push([start, at]);
      if (character === "]") break;
      start = at + 1;
      if (text[start] === "\n") start += 1;
    }
  }
  return found;
}

function endOfString(text, quote) {
  let at = quote;
  do {
    at = text.indexOf('"', at + 1);
    if (at < 0) return text.length;
  } while (escaped(text, at));
  return at;
}

function escaped(text, at) {
  let slashes = 0;
  while (text[at - 1 - slashes] === "\\") slashes += 1;
  return slashes % 2 === 1;
}

// Segments [kind, text]: kind is key, string, number, word or "" for what lies between.
// What fits the width stays on one line.
export function layout(text, width) {
  const tokens = tokenize(text);
  const segments = [];
  const broken = [];
  let column = 0;
  const emit = (kind, piece) => {
    segments.push([kind, piece]);
    column += piece.length;
  };
  const newline = () => {
    const indent = "  ".repeat(Math.min(broken.length, DEEPEST_INDENT));
    segments.push(["", `\n${indent}`]);
    column = indent.length;
  };
  tokens.forEach((token, index) => {
    switch (token.text) {
      case "{":
      case "[": {
        const empty = token.close === index + 1;
        const breaks = !empty && column + token.flat > width && broken.at(-1) !== false;
        emit("", token.text);
        broken.push(breaks);
        if (breaks) newline();
        break;
      }
      case "}":
      case "]":
        if (broken.pop()) newline();
        emit("", token.text);
        break;
      case ",":
        emit("", broken.at(-1) ? "," : ", ");
        if (broken.at(-1)) newline();
        break;
      case ":":
        emit("", ": ");
        break;
      default:
        // Not JSON, but still two words.
        if (index > 0 && !PUNCTUATION.has(tokens[index - 1].text)) emit("", " ");
        emit(kindOf(token.text, tokens[index + 1]), token.text);
    }
  });
  return segments;
}

function tokenize(text) {
  const tokens = [];
  const open = [];
  let flat = 0;
  TOKEN.lastIndex = 0;
  for (let match = TOKEN.exec(text); match !== null; match = TOKEN.exec(text)) {
    // What never closes never fits on a line.
    const token = { text: match[1] ?? match[2] ?? match[3], flat: Infinity, close: null };
    flat += token.text.length + (token.text === "," || token.text === ":" ? 1 : 0);
    if (token.text === "{" || token.text === "[") {
      open.push({ token, from: flat - 1 });
    } else if ((token.text === "}" || token.text === "]") && open.length > 0) {
      const { token: opening, from } = open.pop();
      opening.flat = flat - from;
      opening.close = tokens.length;
    }
    tokens.push(token);
  }
  return tokens;
}

function kindOf(text, next) {
  if (text.startsWith('"')) return next?.text === ":" ? "key" : "string";
  return /^[-0-9]/.test(text) ? "number" : "word";
}
