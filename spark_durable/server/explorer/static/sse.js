// Server-Sent Events from a fetched body: EventSource can not send a token.

export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  let seen = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      buffer += value;
      let start = 0;
      for (;;) {
        // An end may be half there: the search begins one character back.
        const end = buffer.indexOf("\n\n", Math.max(start, seen - 1));
        if (end < 0) break;
        const event = parse(buffer.slice(start, end));
        if (event !== null) yield event;
        start = seen = end + 2;
      }
      buffer = buffer.slice(start);
      seen = buffer.length;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parse(block) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (field === "event") name = value;
    if (field === "data") data.push(value);
  }
  return data.length > 0 ? { name, data: data.join("\n") } : null;
}
