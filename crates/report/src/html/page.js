(() => {
  'use strict';
  const make = (name, of, text) => {
    const made = document.createElement(name);
    made.className = of;
    made.textContent = text;
    return made;
  };

  // Readout: the values of all lines at the x nearest to the cursor.
  const shown = make('div', 'readout', '');
  shown.hidden = true;
  document.body.append(shown);
  const titled = dot => dot.querySelector('title').textContent;
  const readings = svg => {
    const at = new Map();
    for (const dot of svg.querySelectorAll('circle.dot, circle.hit')) {
      const x = dot.cx.baseVal.value;
      at.set(x, [...at.get(x) ?? [], dot]);
    }
    return at;
  };
  const read = (svg, known, event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const byLine = new Map();
    for (const x of [...known.keys()].sort((a, b) => Math.abs(a - at.x) - Math.abs(b - at.x)))
      for (const dot of known.get(x)) {
        const line = dot.parentNode;
        if (!byLine.has(line)) byLine.set(line, dot);
      }
    const dots = [...byLine.values()].sort((a, b) => a.cy.baseVal.value - b.cy.baseVal.value).slice(0, 12);
    shown.replaceChildren(...dots.map(dot => {
      const row = make('div', 'key ' + [...dot.classList].find(name => /^c\d$/.test(name)), '');
      row.append(make('span', '', titled(dot)));
      return row;
    }));
    shown.hidden = !dots.length;
    const room = document.documentElement.clientWidth - shown.offsetWidth - 8;
    shown.style.left = Math.max(8, Math.min(event.clientX + 14, room)) + scrollX + 'px';
    const above = event.clientY - shown.offsetHeight - 14;
    shown.style.top = (above > 0 ? above : event.clientY + 18) + scrollY + 'px';
  };
  for (const svg of document.querySelectorAll('.panel svg, figure.lines svg')) {
    let known;
    svg.addEventListener('pointermove', event => read(svg, known ??= readings(svg), event));
    svg.addEventListener('pointerleave', () => { shown.hidden = true; });
  }

  // Tables: a click on a heading sorts by it, a text keeps the rows that have it.
  const SCALE = {ns: 1, us: 1e3, ms: 1e6, s: 1e9, B: 1, KiB: 1024, MiB: 1048576, GiB: 1073741824,
    'kB/s': 1e3, 'MB/s': 1e6, 'GB/s': 1e9, 'k/s': 1e3, 'M/s': 1e6, 'G/s': 1e9, k: 1e3, M: 1e6, G: 1e9};
  const number = text => {
    const found = /^(-?[\d.]+(?:e[-+]?\d+)?)\s*([^\s,(]*)/.exec(text);
    return found ? found[1] * (SCALE[found[2]] ?? 1) : NaN;
  };
  const compare = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (isNaN(x) && isNaN(y)) return a.localeCompare(b);
    return isNaN(x) ? 1 : isNaN(y) ? -1 : x - y;
  };
  const sortBy = (table, heading) => {
    const at = heading.cellIndex, body = table.tBodies[0];
    const down = heading.getAttribute('aria-sort') === 'ascending';
    for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
    heading.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const text = row => row.cells[at]?.textContent.trim() ?? '';
    const rows = [...body.rows].sort((a, b) => compare(text(a), text(b)));
    body.append(...down ? rows.reverse() : rows);
  };
  const MANY = 8;
  for (const table of document.querySelectorAll('table')) {
    if (!table.tHead || table.tBodies[0].rows.length < 2) continue;
    for (const heading of table.tHead.rows[0].cells) {
      const button = make('button', 'sort', '');
      button.type = 'button';
      button.append(...heading.childNodes);
      button.addEventListener('click', () => sortBy(table, heading));
      heading.append(button);
    }
    if (table.tBodies[0].rows.length < MANY) continue;
    const filter = make('input', 'filter', '');
    filter.type = 'search';
    filter.placeholder = 'rows with \u2026';
    filter.setAttribute('aria-label', 'Show rows with these words');
    filter.addEventListener('input', () => {
      const words = filter.value.toLowerCase().split(/\s+/);
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every(word => text.includes(word));
      }
    });
    table.before(filter);
  }

  // A link into a fold opens it; everything opens with one click, for a search or for paper.
  const reveal = () => {
    let one = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!one) return;
    const target = one;
    for (; one; one = one.parentElement) if (one.tagName === 'DETAILS') one.open = true;
    target.scrollIntoView();
  };
  addEventListener('hashchange', reveal);
  reveal();
  const folds = document.querySelectorAll('details');
  if (folds.length) {
    const all = make('button', 'unfold', 'Open everything');
    all.type = 'button';
    let open = false;
    all.addEventListener('click', () => {
      open = !open;
      for (const fold of folds) fold.open = open;
      all.textContent = open ? 'Close everything' : 'Open everything';
    });
    (document.querySelector('nav') ?? document.querySelector('footer')).append(all);
  }
})();
