for (const table of document.querySelectorAll("table.sorts")) {
  const [head, ...rows] = table.querySelectorAll("tr");
  const number = (row, n) => parseFloat(row.cells[n].textContent.replaceAll(",", ""));
  [...head.cells].forEach((heading, n) => {
    let sign = 1;
    heading.style.cursor = "pointer";
    heading.onclick = () => {
      const text = (a, b) => a.cells[n].textContent.localeCompare(b.cells[n].textContent);
      rows.sort((a, b) => sign * (number(a, n) - number(b, n) || text(a, b)));
      sign = -sign;
      head.after(...rows);
    };
  });
}
