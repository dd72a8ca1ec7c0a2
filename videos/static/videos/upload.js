// The upload page: each file goes up by itself, with a bar, and the server's verdict beside it.
import { element } from "./player/dom.js";
import { PIECE, Refused, ResumableUpload, Stopped } from "./resumable.js";

const AT_ONCE = 2;
const LOOK_EVERY = 1500;

const page = document.getElementById("v-upload");
const list = document.getElementById("v-uploads");
const waiting = [];
const following = new Set();
let running = 0;

const size = (bytes) => {
  const units = ["bytes", "KB", "MB", "GB"];
  const step = Math.min(3, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return `${(bytes / 1000 ** step).toFixed(step > 1 ? 1 : 0)} ${units[step]}`;
};

const row = (file) => {
  const bar = element("progress", { class: "sp-bar", max: 100, value: 0, "aria-label": `upload of ${file.name}` });
  const verdict = element("span", { class: "v-verdict" }, "waiting");
  const stop = element("button", { type: "button", class: "sp-button-quiet" }, "Stop");
  const item = element(
    "li",
    { class: "v-upload" },
    element("div", { class: "v-upload-head" }, element("strong", {}, file.name), element("span", { class: "sp-quiet" }, size(file.size)), stop),
    bar,
    verdict,
  );
  list.prepend(item);
  const say = (state, ...parts) => {
    item.dataset.state = state;
    if (state !== "sending") verdict.setAttribute("role", "status"); // told to those who listen, the bytes are not
    bar.dataset.status = { accepted: "completed", refused: "failed" }[state] ?? "processing";
    verdict.replaceChildren(...parts);
    if (state === "accepted" || state === "refused") stop.remove();
  };
  return { item, bar, stop, say };
};

const wishes = () => ({
  channel: document.getElementById("v-channel").value,
  visibility: document.getElementById("v-visibility").value,
});

const showSent = (place, sent, total) => {
  place.bar.value = (100 * sent) / Math.max(1, total);
  place.say("sending", sent < total ? `${size(sent)} of ${size(total)}` : "The server looks at it…");
};

const send = async (file, place) => {
  place.say("sending", "starting");
  const inPieces = page.dataset.resumable && file.size > PIECE;
  await (inPieces ? sendInPieces(file, place) : sendWhole(file, place));
  running -= 1;
  next();
};

const sendInPieces = async (file, place) => {
  const upload = new ResumableUpload(file, {
    url: page.dataset.resumable,
    csrf: page.dataset.csrf,
    metadata: wishes(),
    tell: (now) => {
      if (now.state === "sending") showSent(place, now.sent, file.size);
      else place.say("waiting", `The connection is lost. What has arrived is kept; the next try is in ${now.seconds} s.`);
    },
  });
  place.stop.addEventListener("click", () => upload.stop());
  try {
    accepted(place, await upload.send());
  } catch (problem) {
    if (problem instanceof Stopped) place.say("refused", STOPPED);
    else refused(place, problem instanceof Refused ? problem.status : 0, problem.message);
  }
};

const sendWhole = (file, place) =>
  new Promise((resolve) => {
    const request = new XMLHttpRequest();
    const query = new URLSearchParams({ name: file.name, ...wishes() });
    place.stop.addEventListener("click", () => request.abort());
    request.upload.addEventListener("progress", ({ loaded, total }) => showSent(place, loaded, total));
    request.addEventListener("loadend", () => {
      const answer = request.response;
      if ((request.status === 200 || request.status === 201) && answer?.id) accepted(place, answer);
      else if (request.status === 0) place.say("refused", STOPPED);
      else refused(place, request.status, answer?.detail);
      resolve();
    });
    request.open("POST", `${page.dataset.upload}?${query}`);
    request.setRequestHeader("X-CSRFToken", page.dataset.csrf);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.responseType = "json";
    request.send(file);
  });

const STOPPED = "It was stopped on the way; nothing was stored.";

const accepted = (place, video) => {
  place.bar.value = 100;
  if (!video) {
    place.say("accepted", "It had arrived, and was purged since.");
    return;
  }
  place.say(
    "accepted",
    element("span", {}, video.created ? "Accepted: " : "It is there already: "),
    element("a", { href: page.dataset.changeUrl.replace("/ID/", `/${video.id}/`) }, video.title),
    element("span", { class: "sp-badge", "data-live": `video.${video.id}.status` }),
    element("progress", { class: "sp-bar", max: 100, "data-status": "processing", "data-live": `video.${video.id}.percent`, "aria-label": "encoding" }),
  );
  following.add(video.id);
  if (following.size === 1) follow();
};

const refused = (place, status, detail) => {
  const signedOut = "You are no longer signed in, or may not upload. Reload the page; then drop the file again.";
  place.say("refused", `Refused: ${status === 401 || status === 403 ? signedOut : detail || `The server answered with ${status}.`}`);
};

// How far those that were accepted are.
const follow = async () => {
  const query = new URLSearchParams([...following].map((id) => ["video", id]));
  try {
    const answer = await fetch(`${page.dataset.liveUrl}?${query}`, { headers: { Accept: "application/json" }, cache: "no-store" });
    if (answer.ok) {
      const values = await answer.json();
      globalThis.Sprocket?.apply(values);
      for (const id of following) if (["ready", "failed"].includes(values[`video.${id}.status`])) following.delete(id);
    }
  } catch {
    // The network is away; the next look may succeed.
  }
  if (following.size) setTimeout(follow, LOOK_EVERY);
};

const next = () => {
  while (running < AT_ONCE && waiting.length) {
    const { file, place } = waiting.shift();
    running += 1;
    send(file, place);
  }
};

const take = (files) => {
  for (const file of files) {
    const place = row(file);
    if (file.size > Number(page.dataset.mostBytes)) {
      place.say("refused", `Refused: the file is larger than ${size(Number(page.dataset.mostBytes))}, which is the limit here.`);
    } else if (!file.size) {
      place.say("refused", "Refused: the file is empty.");
    } else {
      waiting.push({ file, place });
      place.stop.addEventListener("click", () => {
        const at = waiting.findIndex((one) => one.place === place);
        if (at < 0) return;
        waiting.splice(at, 1);
        place.say("refused", "It was stopped before it was sent.");
      });
    }
  }
  next();
};

if (page) {
  const drop = document.getElementById("v-drop");
  const files = document.getElementById("v-files");
  const takeChosen = () => {
    take([...files.files]);
    files.value = "";
  };
  files.addEventListener("change", takeChosen);
  takeChosen(); // what was chosen before this script had come
  for (const name of ["dragenter", "dragover"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.add("is-over");
    });
  }
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("is-over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    take([...event.dataTransfer.files]);
  });
  addEventListener("beforeunload", (event) => {
    if (running || waiting.length) event.preventDefault();
  });
}
