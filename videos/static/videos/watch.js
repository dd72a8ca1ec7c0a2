// The watch page: the player, or how far the video is until there is something to play.
import { mount } from "./player/player.js";

const stage = document.getElementById("stage");
const asked = new URLSearchParams(location.search);

const play = () => {
  const root = stage.querySelector("[data-player]");
  // ?player=native or ?player=hls.js: to find out whose fault it is
  return root && mount(root, { keys: document, engine: asked.get("player") ?? "" });
};

let coming = false;
document.addEventListener("live", async ({ detail }) => {
  if (detail["video.status"] === "gone") location.reload();
  if (detail["video.status"] !== "ready" || coming) return;
  coming = true;
  const answer = await fetch(location.href).catch(() => null);
  if (!answer?.ok) return location.reload();
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const place of ["#stage", ".about"]) {
    const found = fresh.querySelector(place);
    if (found) document.querySelector(place).replaceChildren(...found.childNodes);
  }
  stage.dataset.state = "ready";
  await play()?.ready.then((player) => player.play());
});

play();
