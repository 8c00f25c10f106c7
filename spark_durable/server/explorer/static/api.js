// Requests to this server, with the token where there is one. The token lives in this tab's session
// storage and in the Authorization header, nowhere else.

const ROOT = new URL("..", import.meta.url);
const KEY = "durable-streams-token";

export class Refused extends Error {
  constructor(status, text) {
    super(text || `the server answered ${status}`);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

let refused = () => {};

// What happens when the server asks for a token, or no longer takes the one it got.
export const onUnauthorized = (callback) => {
  refused = callback;
};

export const urlOf = (path) => new URL(path.replace(/^\//, ""), ROOT).href;

export async function request(path, { headers = {}, ...options } = {}) {
  const secret = token.get();
  const sent = secret === null ? headers : { ...headers, Authorization: `Bearer ${secret}` };
  // Answers can be cached by offset; a stream that was deleted and created anew has the same ones.
  const response = await fetch(urlOf(path), { cache: "no-store", ...options, headers: sent });
  if (response.ok) return response;
  const error = new Refused(response.status, await reason(response));
  if (response.status === 401) refused(error);
  throw error;
}

export async function ask(path, parameters = {}, options = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, value);
  }
  const response = await request(`${path}?${query}`, options);
  return response.json();
}

async function reason(response) {
  const text = (await response.text()).trim();
  if (!response.headers.get("content-type")?.startsWith("application/json")) return text.slice(0, 500);
  try {
    const { error } = JSON.parse(text);
    return String(error?.message ?? text).slice(0, 500);
  } catch {
    return text.slice(0, 500);
  }
}
