// The watch page: says so when the browser cannot play, and shows how far a video is until it is ready.
"use strict";

const player = document.getElementById("player");
if (player && !player.canPlayType("application/vnd.apple.mpegurl")) {
  document.getElementById("unplayable").hidden = false;
}

const waiting = document.getElementById("progress");
if (waiting) {
  const look = async () => {
    try {
      const answer = await fetch(waiting.dataset.status, { cache: "no-store" });
      if (answer.ok) show(await answer.json());
    } catch {
      // The network is away; the next look may succeed.
    }
    setTimeout(look, 1000);
  };
  let highest = 0;
  const show = (now) => {
    if (now.status === "ready") location.reload();
    highest = Math.max(highest, now.percent);
    document.getElementById("overall").value = highest;
    document.getElementById("state").textContent =
      now.status === "failed" ? "This video could not be prepared." : `${now.step}: ${highest} %`;
    document.getElementById("qualities").replaceChildren(
      ...now.qualities
        .filter((row) => row.status !== "skipped")
        .map((row) => Object.assign(document.createElement("li"), {
          textContent: `${row.quality}: ${row.status.replace("_", " ")}, ${row.percent} %`,
        })),
    );
  };
  look();
}
