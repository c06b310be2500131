// Collects the microphone's samples, a tenth of a second at a time, as integers of 16 bits.
class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.piece = new Int16Array(Math.round(sampleRate / 10));
    this.filled = 0;
  }

  process([channels]) {
    const samples = channels[0] ?? [];
    for (const sample of samples) {
      this.piece[this.filled++] = Math.max(-32768, Math.min(32767, Math.round(sample * 32768)));
      if (this.filled === this.piece.length) {
        this.port.postMessage(this.piece.slice());
        this.filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("capture", Capture);
