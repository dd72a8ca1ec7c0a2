// Gets the stream into the <video>: by hls.js where it is installed and of use, else by the browser itself.

const HLS_TYPE = "application/vnd.apple.mpegurl";

// Safari plays HLS better than any script can; it is told by AirPlay, which no other browser has.
const isSafari = (video) => "webkitCurrentPlaybackTargetIsWireless" in video;

export const start = async (video, { master, hlsScript, hlsWorker, engine, onLevels, onTrouble }) => {
  const native = video.canPlayType(HLS_TYPE) !== "";
  if (engine !== "native" && hlsScript && !(isSafari(video) && native && engine !== "hls.js")) {
    const Hls = await load(hlsScript).catch(() => null);
    if (Hls?.isSupported()) return withScript(Hls, video, { master, hlsWorker, onLevels, onTrouble });
  }
  if (native) return byItself(video, { master, onTrouble });
  onTrouble(
    "This browser cannot play HLS by itself, and hls.js, which would help it, is not installed on this site. " +
      "Safari and Chromium 142 or newer can play this video.",
  );
  return { name: "none", levels: [], choose() {}, stop() {} };
};

const load = (address) =>
  window.Hls
    ? Promise.resolve(window.Hls)
    : new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = address;
        script.addEventListener("load", () => resolve(window.Hls));
        script.addEventListener("error", reject);
        document.head.append(script);
      });

const byItself = (video, { master, onTrouble }) => {
  video.addEventListener("error", () => onTrouble("The video could not be loaded. Try to reload the page."));
  video.preload = "metadata";
  video.src = master;
  return { name: "native", levels: [], choose() {}, stop: () => video.removeAttribute("src") };
};

const withScript = (Hls, video, { master, hlsWorker, onLevels, onTrouble }) => {
  const hls = new Hls({
    workerPath: hlsWorker || null,
    capLevelToPlayerSize: true,
    abrEwmaDefaultEstimate: 2_000_000,
    // The page has a <track> for each language, also for those that came after publishing.
    enableWebVTT: false,
    enableIMSC1: false,
    enableCEA708Captions: false,
  });
  const playback = {
    name: "hls.js",
    levels: [],
    chosen: -1,
    get playing() {
      return hls.currentLevel;
    },
    choose(index) {
      playback.chosen = index;
      // What somebody chooses shows at once; back to automatic there is time until the next segment.
      if (index < 0) hls.nextLevel = -1;
      else hls.currentLevel = index;
      onLevels();
    },
    stop: () => hls.destroy(),
  };
  let mended = 0;
  hls.on(Hls.Events.MANIFEST_PARSED, (_, { levels }) => {
    playback.levels = levels.map((level, index) => ({ index, label: label(level) })).reverse();
    onLevels();
  });
  hls.on(Hls.Events.LEVEL_SWITCHED, onLevels);
  hls.on(Hls.Events.FRAG_BUFFERED, () => onTrouble(""));
  hls.on(Hls.Events.ERROR, (_, error) => {
    if (!error.fatal) return;
    if (error.type === Hls.ErrorTypes.MEDIA_ERROR && mended++ < 2) {
      hls.recoverMediaError();
    } else if (error.type === Hls.ErrorTypes.NETWORK_ERROR && (error.response?.code ?? 0) < 400) {
      onTrouble("The connection is lost. Trying again…");
      setTimeout(() => (playback.levels.length ? hls.startLoad() : hls.loadSource(master)), 2000);
    } else {
      onTrouble("The video could not be loaded. Try to reload the page.");
    }
  });
  video.removeAttribute("src");
  hls.loadSource(master);
  hls.attachMedia(video);
  return playback;
};

// By the short side, so that a portrait video has the same names; the frame rate where it is high.
const label = ({ width, height, frameRate }) =>
  `${Math.min(width, height)}p${frameRate > 31 ? Math.round(frameRate) : ""}`;
