// The dialog that creates a stream, and its bucket where there is none.

import { Refused, request } from "./api.js";
import { $, el, say } from "./dom.js";
import { placeOf, streamPath } from "./list.js";

export class Create {
  constructor(created) {
    $("create-root").addEventListener("change", () => this.#choose());
    $("create-cancel").addEventListener("click", () => $("create").close());
    $("create-form").addEventListener("submit", async (event) => {
      event.preventDefault();
      say($("create-error"), "");
      try {
        const path = await this.#create();
        $("create").close();
        created(path);
      } catch (error) {
        say($("create-error"), error.message);
      }
    });
  }

  open(place, buckets) {
    $("bucket-names").replaceChildren(...buckets.map((name) => el("option", { value: name })));
    $("create-root").value = place.bucket === undefined && buckets.length > 0 ? "v1" : "ds";
    $("create-bucket").value = place.bucket ?? buckets[0] ?? "main";
    $("create-name").value = "";
    say($("create-error"), "");
    this.#choose();
    $("create").showModal();
    $("create-name").focus();
  }

  #choose() {
    $("create-bucket-row").hidden = $("create-root").value !== "ds";
  }

  async #create() {
    const name = $("create-name").value;
    let place = placeOf("/v1/stream");
    if ($("create-root").value === "ds") {
      place = placeOf(`/ds/${encodeURIComponent($("create-bucket").value.trim() || " ")}`);
      await bucket(`/ds/${encodeURIComponent(place.bucket)}`);
    }
    const path = streamPath(place, name);
    const made = await request(path, {
      method: "PUT",
      headers: { "Content-Type": $("create-type").value.trim() },
    });
    if (made.status === 200) throw new Refused(200, "There is a stream of that name already.");
    return path;
  }
}

async function bucket(path) {
  try {
    await request(path, { method: "PUT" });
  } catch (error) {
    // A token for one bucket may not create it, and need not.
    if (error.status !== 409 && error.status !== 403) throw error;
  }
}
