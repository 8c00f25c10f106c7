// The page: what the address names is shown; without a token that is good, the gate.

import { onUnauthorized, Refused, token } from "./api.js";
import { Create } from "./create.js";
import { Detail } from "./detail.js";
import { $, say } from "./dom.js";
import { placeOf, Places, StreamList } from "./list.js";

const STREAM = /^\/(v1\/stream|v0\/topics|ds\/[^/]+)\/./;

const trouble = (error) => {
  if (error.status === 401) return;
  say($("trouble"), error instanceof Refused ? error.message : "The server does not answer");
};

const places = new Places(trouble);
const list = new StreamList(trouble);
const detail = new Detail(trouble);
const create = new Create(async (path) => {
  await Promise.all([places.reload(), list.reload()]);
  location.hash = path;
});

async function navigate() {
  const path = location.hash.slice(1);
  const place = path.startsWith("/") ? placeOf(path) : places.first;
  places.select(place);
  const chosen = STREAM.test(path);
  $("invitation").textContent = places.empty ? "This server holds no streams yet." : "Choose a stream to look into it.";
  $("invitation-hint").hidden = places.empty;
  $("invitation-new").hidden = !places.empty;
  if (chosen) detail.show(path);
  else detail.hide();
  await list.show(place, chosen ? path : null);
}

async function open() {
  try {
    await places.reload();
  } catch (error) {
    if (error.status === 401) return;
    trouble(error);
    setTimeout(open, 2000);
    return;
  }
  $("gate").hidden = true;
  $("app").hidden = false;
  $("forget").hidden = token.get() === null;
  await navigate();
}

function shut(message) {
  token.forget();
  detail.hide();
  list.clear();
  places.clear();
  $("app").hidden = true;
  $("forget").hidden = true;
  $("gate").hidden = false;
  say($("gate-error"), message);
  $("token").value = "";
  $("token").focus();
}

onUnauthorized(() => shut(token.get() === null ? "" : "The server does not take this token."));

$("origin").textContent = location.host;
$("gate-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const secret = $("token").value.trim();
  if (!/^[\x21-\x7e]+$/.test(secret)) {
    say($("gate-error"), "A token has no spaces and no letters beyond ASCII.");
    return;
  }
  token.set(secret);
  open();
});
$("forget").addEventListener("click", () => shut(""));
for (const id of ["new", "new-first"]) {
  $(id).addEventListener("click", () => create.open(list.place, places.buckets));
}
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, textarea, select, dialog[open]")) return;
  event.preventDefault();
  $("search").focus();
});
window.addEventListener("hashchange", () => $("app").hidden || navigate());
open();
