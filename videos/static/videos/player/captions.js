// Captions, drawn by the page itself: they look the same everywhere and keep clear of the controls.
import { element, remember, remembered } from "./dom.js";

export const captions = (video, { onChange }) => {
  const box = element("div", { class: "vp-captions", "aria-live": "off" });
  const tracks = [...video.querySelectorAll("track")].map((node) => node.track);
  let chosen = null;

  const draw = () => {
    const cues = chosen ? [...(chosen.activeCues ?? [])] : [];
    box.replaceChildren(
      ...cues.map((cue) => element("p", {}, element("span", {}, cue.getCueAsHTML?.() ?? cue.text))),
    );
  };

  const choose = (track) => {
    chosen?.removeEventListener("cuechange", draw);
    for (const one of tracks) one.mode = one === track ? "hidden" : "disabled";
    chosen = track;
    chosen?.addEventListener("cuechange", draw);
    draw();
    onChange();
  };

  // The full screen of an iPhone is its own player, which draws them itself.
  video.addEventListener("webkitbeginfullscreen", () => chosen && (chosen.mode = "showing"));
  video.addEventListener("webkitendfullscreen", () => chosen && (chosen.mode = "hidden"));

  return {
    box,
    tracks,
    get chosen() {
      return chosen;
    },
    choose(track) {
      remember("captions", track ? track.language : "off");
      choose(track);
    },
    restore() {
      const language = remembered("captions");
      choose(tracks.find((track) => track.language === language) ?? null);
    },
    toggle() {
      if (!tracks.length) return "No captions";
      this.choose(chosen ? null : tracks[0]);
      return chosen ? `Captions: ${chosen.label}` : "Captions off";
    },
  };
};
