// A WebSocket that comes back by itself, after pauses that grow and are never quite the same.

const FIRST = 500;
const LONGEST = 15000;

export class Socket {
  // `address` gives the path anew for each attempt, so that a reader resumes after its last id.
  // `before` is awaited when a connection has failed: a browser does not tell why, a call does.
  constructor(address, { onMessage, onState = () => {}, onClose = () => {}, before = () => {} }) {
    Object.assign(this, { address, onMessage, onState, onClose, before });
    this.attempts = 0;
    this.isClosed = false;
    this.open();
  }

  open() {
    this.onState("connecting");
    const url = new URL(this.address(), location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url, ["place"]);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.attempts = 0;
      this.onState("live");
    };
    socket.onmessage = ({ data }) => this.onMessage(data);
    socket.onclose = (event) => this.closed(event);
    this.socket = socket;
  }

  closed(event) {
    if (this.isClosed) return;
    this.onClose(event);
    const pause = Math.min(LONGEST, FIRST * 2 ** this.attempts++) * (0.7 + 0.6 * Math.random());
    this.onState("waiting", Math.ceil(pause / 1000));
    this.timer = setTimeout(() => this.again(), pause);
  }

  async again() {
    try {
      await this.before();
    } catch {
      if (!this.isClosed) this.closed({ code: 0 });
      return;
    }
    if (!this.isClosed) this.open();
  }

  send(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.timer);
    const { socket } = this;
    socket.onclose = socket.onmessage = null;
    // Browsers complain of one that is closed before it is open.
    if (socket.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close();
    else socket.close();
  }
}
