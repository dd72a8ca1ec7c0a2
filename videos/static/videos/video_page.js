// The page of a video in the admin: the player, in place as soon as there is something to play.
import { mount } from "./player/player.js";

const page = document.querySelector("[data-video]");

const show = () => {
  const root = document.querySelector("#v-stage [data-player]");
  return root && mount(root, { keys: root });
};

let player = page && show();

const exchange = async (generation) => {
  const answer = await fetch(location.href).catch(() => null);
  if (!answer?.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#v-stage");
  if (!fresh) return;
  player?.stop();
  const stage = document.getElementById("v-stage");
  stage.replaceChildren(...fresh.childNodes);
  stage.dataset.generation = String(generation);
  player = show();
};

// What a form does may take the files away that the player is about to fetch; another page comes anyway.
document.addEventListener("submit", (event) => event.defaultPrevented || player?.stop());

document.addEventListener("live", ({ detail }) => {
  if (!page) return;
  const name = `video.${page.dataset.video}`;
  if (detail[`${name}.status`] === "purged") location.reload();
  const generation = detail[`${name}.generation`];
  const stage = document.getElementById("v-stage");
  // Whoever is watching a generation that has been replaced is not interrupted.
  const watching = player && !player.video.paused;
  if (generation && String(generation) !== stage.dataset.generation && !watching) {
    stage.dataset.generation = String(generation);
    exchange(generation);
  }
});
