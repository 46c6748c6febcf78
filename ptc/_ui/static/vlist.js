// A list of rows of equal height, of which only those in view are elements.

const EXTRA = 8;

export class VirtualList {
  // `port` scrolls; `render(index)` returns the element of a row.
  constructor(port, rowHeight, render, onEnd) {
    this.port = port;
    this.rowHeight = rowHeight;
    this.render = render;
    this.onEnd = onEnd;
    this.length = 0;
    this.rows = new Map();
    this.space = document.createElement("div");
    this.space.className = "space";
    this.space.setAttribute("role", "presentation");
    port.append(this.space);
    this.planned = 0;
    port.addEventListener("scroll", () => this.plan(), { passive: true });
    this.observer = new ResizeObserver(() => this.plan());
    this.observer.observe(port);
  }

  setLength(length) {
    this.length = length;
    this.space.style.height = `${length * this.rowHeight}px`;
    this.refresh();
  }

  // More rows at the end: those in view stay as they are.
  extend(length) {
    this.length = length;
    this.space.style.height = `${length * this.rowHeight}px`;
    this.plan();
  }

  setRowHeight(height) {
    if (height === this.rowHeight) return;
    this.rowHeight = height;
    this.setLength(this.length);
  }

  refresh() {
    for (const node of this.rows.values()) node.remove();
    this.rows.clear();
    this.draw();
  }

  plan() {
    if (!this.planned) this.planned = requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.planned);
    this.planned = 0;
    const top = this.port.scrollTop;
    const first = Math.max(0, Math.floor(top / this.rowHeight) - EXTRA);
    const last = Math.min(
      this.length, Math.ceil((top + this.port.clientHeight) / this.rowHeight) + EXTRA);
    for (const [index, node] of this.rows) {
      if (index < first || index >= last) {
        node.remove();
        this.rows.delete(index);
      }
    }
    // In order, so that a screen reader and the Tab key meet the rows in order.
    let after = null;
    for (let index = first; index < last; index += 1) {
      let node = this.rows.get(index);
      if (!node) {
        node = this.render(index);
        node.style.transform = `translateY(${index * this.rowHeight}px)`;
        this.rows.set(index, node);
        if (after) after.after(node);
        else this.space.prepend(node);
      }
      after = node;
    }
    if (this.onEnd && last >= this.length - 50) this.onEnd();
  }

  show(index) {
    const top = index * this.rowHeight;
    const height = this.port.clientHeight;
    if (top < this.port.scrollTop) this.port.scrollTop = top;
    else if (top + this.rowHeight > this.port.scrollTop + height) {
      this.port.scrollTop = top + this.rowHeight - height;
    }
    this.draw();
  }

  close() {
    this.observer.disconnect();
  }
}
