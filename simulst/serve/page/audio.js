// Where the audio comes from. A source has `rate`, and calls `give(Int16Array)` while it runs and `ended()` at its end.

export const RATE = 16000;
const PIECE = RATE / 10;

export class Microphone {
  rate = RATE;
  name = "the microphone";
  live = true;  // its samples come by themselves, unless the system takes it away
  paused = false;

  async start(give, ended) {
    const wanted = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
    this.media = await this.opened(wanted);
    [this.track] = this.media.getAudioTracks();
    if (!this.track) throw new Error("No sound is shared: choose a tab, or the screen, and share its sound too.");
    this.track.addEventListener("ended", () => ended(this.gone));
    try {
      this.open(new AudioContext({ sampleRate: RATE }));
    } catch {  // a browser that does not resample a microphone: the server does
      this.context.close();
      this.open(new AudioContext());
    }
    this.rate = this.context.sampleRate;
    await this.context.audioWorklet.addModule("capture.js");
    this.node = new AudioWorkletNode(this.context, "capture", { numberOfOutputs: 0 });
    this.node.port.onmessage = ({ data }) => this.paused || give(data);
    this.node.onprocessorerror = () => ended(new Error("The browser has stopped the microphone."));
    this.input.connect(this.node);
    this.context.addEventListener("statechange", () => this.wake());
    await this.wake();
  }

  opened(audio) { return navigator.mediaDevices.getUserMedia({ audio }); }

  get gone() { return new Error("The microphone is gone, or no longer allowed."); }

  open(context) {
    this.context = context;
    this.input = context.createMediaStreamSource(this.media);
  }

  // A call, or a locked screen, suspends the sound; nobody else resumes it.
  async wake() {
    if (this.context.state === "running" || this.context.state === "closed") return;
    try {
      await this.context.resume();
    } catch { /* the system still has it */ }
  }

  get muted() { return this.track.muted; }

  pause() { this.paused = true; }
  resume() { this.paused = false; }

  stop() {
    this.media?.getTracks().forEach((track) => track.stop());
    if (this.context && this.context.state !== "closed") this.context.close();
  }
}

// The sound of a tab, a window or the screen. Browsers share it with its picture alone, which is not looked at.
export class Shared extends Microphone {
  name = "the tab or screen";

  opened(audio) { return navigator.mediaDevices.getDisplayMedia({ video: true, audio, systemAudio: "include" }); }

  get gone() { return undefined; }  // somebody has ended it
}

// Plays audio at the speed of speech. `part(n)` promises the n-th Int16Array of it, or null after the last one.
export class Player {
  rate = RATE;
  sent = 0;  // samples
  queue = [];
  parts = 0;
  paused = true;

  constructor(part) { this.part = part; }

  async start(give, ended) {
    this.give = give;
    this.ended = ended;
    await this.load();
    this.sound = new AudioContext({ sampleRate: RATE });
    this.resume();
    this.timer = setInterval(() => this.step(), 50);
  }

  async load() {
    const part = this.over ? null : await this.part(this.parts++);
    if (part) this.queue.push(part);
    else this.over = true;
    this.loading = null;
  }

  pause() {
    this.paused = true;
    this.sound?.suspend();
  }

  resume() {
    this.sound?.resume();
    this.paused = false;
    this.began = performance.now() - (this.sent / RATE) * 1000;
  }

  stop() {
    clearInterval(this.timer);
    this.paused = true;
    if (this.sound && this.sound.state !== "closed") this.sound.close();
  }

  step() {
    while (!this.paused && this.sent + PIECE <= ((performance.now() - this.began) / 1000) * RATE) {
      if (this.queue.length < 2 && !this.over) this.loading ??= this.load().catch((error) => this.ended(error));
      if (!this.queue.length) {
        if (this.over) this.stop(), this.ended();
        else this.began = performance.now() - (this.sent / RATE) * 1000;  // the next part is late
        return;
      }
      const [first] = this.queue;
      const piece = first.subarray(0, PIECE);
      if (piece.length === first.length) this.queue.shift();
      else this.queue[0] = first.subarray(PIECE);
      this.play(piece);
      this.sent += piece.length;
      this.give(piece);
    }
  }

  play(samples) {
    const buffer = this.sound.createBuffer(1, samples.length, RATE);
    buffer.copyToChannel(Float32Array.from(samples, (sample) => sample / 32768), 0);
    const node = new AudioBufferSourceNode(this.sound, { buffer });
    node.connect(this.sound.destination);
    this.due = Math.max(this.due ?? 0, this.sound.currentTime + 0.05);
    node.start(this.due);
    this.due += buffer.duration;
  }
}

// The audio of a file, whatever the browser can read, as one part.
export async function playerOfFile(file) {
  const decoder = new OfflineAudioContext(1, 1, RATE);
  const audio = await decoder.decodeAudioData(await file.arrayBuffer());
  const mixed = new Int16Array(audio.length);
  const channels = Array.from({ length: audio.numberOfChannels }, (_, i) => audio.getChannelData(i));
  for (let i = 0; i < mixed.length; i++) {
    const mean = channels.reduce((sum, channel) => sum + channel[i], 0) / channels.length;
    mixed[i] = Math.max(-32768, Math.min(32767, Math.round(mean * 32768)));
  }
  return new Player(async (n) => (n ? null : mixed));
}

// A recording of the server.
export function playerOfRecording(number, seconds, part, headers) {
  return new Player(async (n) => {
    if (n * part >= seconds) return null;
    const answer = await fetch(`recordings/${number}/${n}`, { headers });
    if (!answer.ok) throw new Error("The recording can’t be read.");
    return new Int16Array(await answer.arrayBuffer());
  });
}
