// Browsers start no worker for a page that is opened from disk: there the search runs in a frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = Object.assign(document.createElement("iframe"), { hidden: true, srcdoc: "<body>" });
      this.started = new Promise((start) => {
        frame.onload = () => {
          const inner = frame.contentWindow;
          inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inner.document.createElement("script");
          script.onload = () => start(inner);
          script.src = url;
          inner.document.body.append(script);
        };
      });
      const begin = () => document.body.append(frame);
      if (document.body) begin();
      else addEventListener("DOMContentLoaded", begin);
    }
    postMessage(data) {
      this.started.then((inner) => inner.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
