// Browsers refuse to start a Worker from a file, so the search would do nothing where the pages are
// opened without a server. There, run the worker's script in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = frame.contentWindow
      inside.addEventListener("message", event => event.stopImmediatePropagation())
      inside.postMessage = data => {
        this.dispatchEvent(new MessageEvent("message", { data }))
        this.onmessage?.(new MessageEvent("message", { data }))
      }
      // A worker imports scripts one after another and waits; a frame returns a promise of them.
      inside.importScripts = (...urls) =>
        urls.reduce((loaded, each) => loaded.then(() => this.load(inside, each)), Promise.resolve())
      this.listeners = []
      const listen = inside.addEventListener.bind(inside)
      inside.addEventListener = (kind, listener, options) =>
        kind === "message" ? this.listeners.push(listener) : listen(kind, listener, options)
      this.inside = inside
      this.load(inside, url).then(() => {
        this.ready = true
        this.waiting.splice(0).forEach(data => this.deliver(data))
      })
    }

    load(inside, url) {
      return new Promise((resolve, reject) => {
        const script = inside.document.createElement("script")
        script.src = new URL(url, document.baseURI).href
        script.onload = resolve
        script.onerror = reject
        inside.document.body.append(script)
      })
    }

    deliver(data) {
      const event = new MessageEvent("message", { data })
      this.listeners.forEach(listener => listener.call(this.inside, event))
      this.inside.onmessage?.(event)
    }

    postMessage(data) {
      if (this.ready) this.deliver(data)
      else this.waiting.push(data)
    }

    terminate() {
      this.inside.frameElement?.remove()
    }
  }
}
