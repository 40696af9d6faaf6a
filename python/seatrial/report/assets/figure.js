// One chart in the page: its buttons, its list of views, and its drawing at the width it has.

const DRAWINGS = {
  lines: { option: linesOption, table: linesTable, renderer: 'svg' },
  ladder: { option: ladderOption, table: rowsTable, renderer: 'svg' },
  bars: { option: barsOption, table: rowsTable, renderer: 'svg' },
  scatter: { option: scatterOption, table: scatterTable, renderer: 'svg' },
  timeline: { option: timelineOption, table: timelineTable, renderer: 'svg' },
  // Thousands of small rectangles: a canvas draws them at once, as elements they take a while.
  heat: { option: heatOption, table: heatTable, renderer: 'canvas' },
};

/** A chart that draws itself into the element that the report set out for it. */
class ChartFigure {
  constructor(element, data, run) {
    this.element = element;
    this.data = data;
    this.run = run;
    this.drawing = DRAWINGS[data.kind];
    this.chosen = data.chosen;
    this.plot = element.querySelector('.plot');
    this.heading = element.querySelector('h3');
    element.querySelector('.toolbar').append(...this.controls());
  }

  get view() {
    return this.data.views[this.chosen];
  }

  /** Draw at the width that there is, or at the one that is asked for (a sheet of paper's). */
  draw(width_px = this.plot.clientWidth) {
    const [option, height_px] = this.drawing.option(this.view, width_px, currentColours());
    this.plot.style.height = `${height_px}px`;
    if (this.chart) this.chart.resize({ width: width_px, height: height_px });
    else this.chart = this.create(width_px, height_px);
    this.chart.setOption(option, { notMerge: true });
    this.drawnWidth_px = width_px;
  }

  create(width_px, height_px) {
    this.plot.replaceChildren(); // the picture that needs no script
    return echarts.init(this.plot, null, {
      renderer: this.drawing.renderer,
      width: width_px,
      height: height_px,
      devicePixelRatio: Math.max(2, window.devicePixelRatio),
    });
  }

  /** Return whether there is room to draw in; there is none inside of what is folded. */
  get isShown() {
    return this.plot.clientWidth > 0 && this.plot.checkVisibility();
  }

  /** Draw for the first time, or again if the width has changed. */
  fit() {
    if (this.isShown && this.plot.clientWidth !== this.drawnWidth_px) this.draw();
  }

  choose(index) {
    this.chosen = index;
    this.heading.textContent = unbroken(this.view.title);
    this.plot.setAttribute('aria-label', this.view.title);
    this.element.querySelector('.of-view').textContent = `: ${unbroken(this.view.label)}`;
    this.showNotes();
    if (this.isShown) this.draw();
    this.element.dispatchEvent(new CustomEvent('view-chosen', { detail: this.view }));
  }

  /** Put the view's own sentences below the chart: what is circled, then its notes. */
  showNotes() {
    const { gaps = [], notes = [] } = this.view;
    const list = this.element.querySelector('.gaps');
    list.replaceChildren(...gaps.map((text) => textElement('li', text)));
    list.hidden = gaps.length === 0;
    this.element.querySelector('.view-notes').textContent = notes.join(' ');
  }

  controls() {
    const several = this.data.views.length > 1;
    return [...(several ? [this.viewList()] : []), this.saveButtons()];
  }

  /** Return the list to pick a view from, its entries under their headings. */
  viewList() {
    const list = document.createElement('select');
    let parent = list;
    this.data.views.forEach((view, index) => {
      if (view.group && view.group !== parent.label) {
        parent = document.createElement('optgroup');
        parent.label = view.group;
        list.append(parent);
      }
      parent.append(new Option(view.label, index, index === this.chosen, index === this.chosen));
    });
    list.addEventListener('change', () => this.choose(Number(list.value)));
    const label = document.createElement('label');
    label.append('Show ', list);
    return label;
  }

  saveButtons() {
    const group = document.createElement('span');
    group.className = 'saves';
    const ofView = () => (this.data.views.length > 1 ? `: ${this.view.label}` : '');
    const words = () => ({
      topic: this.data.topic + ofView(), title: this.view.title, source: this.run,
    });
    const saves = {
      PNG: (name) => savePng(name, this.drawing.option, this.view, words()),
      SVG: (name) => saveSvg(name, this.drawing.option, this.view, words()),
      CSV: (name) => saveCsv(name, this.drawing.table(this.view)),
    };
    for (const [format, save] of Object.entries(saves)) {
      const button = textElement('button', format);
      button.type = 'button';
      button.title = `Save this chart${format === 'CSV' ? "'s data" : ''} as ${format}`;
      button.setAttribute('aria-label', `${button.title}: ${this.data.topic}`);
      button.addEventListener('click', () => save(this.fileName()));
      group.append(button);
    }
    return group;
  }

  fileName() {
    const view = this.data.views.length > 1 ? `-${this.view.label}` : '';
    return `seatrial-${this.data.id}${view}`.toLowerCase().replaceAll(/[^a-z0-9.]+/g, '-');
  }
}
