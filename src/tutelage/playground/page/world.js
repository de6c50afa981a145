// Worlds as plain data, in the form of their files. Functions return a new world and change none.

export const OBJECTS = ["star", "plus", "dot"];
export const COLOURS = ["green", "yellow"];
export const MOVES = { ArrowUp: [-1, 0], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowRight: [0, 1] };

const rowOf = (cell, size) => Math.floor(cell / size);
const columnOf = (cell, size) => cell % size;
// The middle of a cell, in units of cells.
export const middle = (cell, size) => [columnOf(cell, size) + 0.5, rowOf(cell, size) + 0.5];

export function emptyWorld(size) {
  const middle = Math.floor(size / 2);
  return {
    size,
    start: middle * size + middle,
    objects: { star: [], plus: [], dot: [] },
    distractors: { green: [], yellow: [] },
    discount: 0.99,
    end_probability: 0.1,
    weights: [1, 0.9, 0.2],
  };
}

// A changed world is no longer the generated one: its generator and seed are dropped.
export function changed(world, changes) {
  const { generator, seed, ...rest } = world;
  return { ...rest, ...changes };
}

export const holder = (things, cell) => Object.keys(things).find((kind) => things[kind].includes(cell)) ?? null;

function without(things, cell) {
  return Object.fromEntries(
    Object.entries(things).map(([kind, cells]) => [kind, cells.filter((other) => other !== cell)]),
  );
}

// The world with a cell painted, or erased.
export function painted(world, brush, cell, isErasing) {
  if (brush === "start") return changed(world, { start: cell });
  const group = OBJECTS.includes(brush) ? "objects" : "distractors";
  if (brush === "erase") {
    return changed(world, { objects: without(world.objects, cell), distractors: without(world.distractors, cell) });
  }
  const things = without(world[group], cell);
  if (!isErasing) things[brush] = [...things[brush], cell].sort((a, b) => a - b);
  return changed(world, { [group]: things });
}

// The world with one mark moved from a cell to another.
export function moved(world, kind, from, to) {
  if (kind === "start") return changed(world, { start: to });
  const group = OBJECTS.includes(kind) ? "objects" : "distractors";
  const things = without(without(world[group], from), to);
  things[kind] = [...things[kind], to].sort((a, b) => a - b);
  return changed(world, { [group]: things });
}

// The part of the world that fits the new size, from the top left.
export function resized(world, size) {
  const move = (cell) => {
    const row = rowOf(cell, world.size),
      column = columnOf(cell, world.size);
    return row < size && column < size ? row * size + column : -1;
  };
  const moved = (things) =>
    Object.fromEntries(
      Object.entries(things).map(([kind, cells]) => [kind, cells.map(move).filter((cell) => cell >= 0)]),
    );
  const start = move(world.start);
  return changed(world, {
    size,
    objects: moved(world.objects),
    distractors: moved(world.distractors),
    start: start >= 0 ? start : emptyWorld(size).start,
  });
}

// Flags of the cells that these preferences cover, whatever their allowances.
export function avoidedCells(world, preferences) {
  const avoided = new Array(world.size * world.size).fill(false);
  for (const { colour, distance } of preferences) {
    for (const cell of world.distractors[colour]) {
      const row = rowOf(cell, world.size),
        column = columnOf(cell, world.size);
      for (let r = Math.max(0, row - distance); r <= Math.min(world.size - 1, row + distance); r++) {
        for (let c = Math.max(0, column - distance); c <= Math.min(world.size - 1, column + distance); c++) {
          avoided[r * world.size + c] = true;
        }
      }
    }
  }
  return avoided;
}

export function describe(world, cell, avoided = null) {
  const parts = [
    holder(world.objects, cell),
    holder(world.distractors, cell),
    cell === world.start ? "start" : null,
    avoided?.[cell] ? "avoided" : null,
  ];
  const held = parts.filter(Boolean).join(", ") || "empty";
  return `row ${rowOf(cell, world.size) + 1}, column ${columnOf(cell, world.size) + 1}: ${held}`;
}

// The cell that a move leads to; null outside the grid.
export function neighbour(world, cell, [down, across]) {
  const row = rowOf(cell, world.size) + down,
    column = columnOf(cell, world.size) + across;
  const isInside = row >= 0 && column >= 0 && row < world.size && column < world.size;
  return isInside ? row * world.size + column : null;
}

// The cells on the way from one cell to another, without the first; the longer direction is reduced first.
export function wayTo(world, from, to) {
  const way = [];
  for (let at = from; at !== to; way.push(at)) {
    const down = rowOf(to, world.size) - rowOf(at, world.size);
    const across = columnOf(to, world.size) - columnOf(at, world.size);
    at = neighbour(world, at, Math.abs(down) > Math.abs(across) ? [Math.sign(down), 0] : [0, Math.sign(across)]);
  }
  return way;
}

// The default scene, which is also that of the story: the star is worth most, but lies beside green.
export const GARDEN = {
  size: 6,
  start: 32,
  objects: { star: [15], plus: [12], dot: [35] },
  distractors: { green: [16], yellow: [] },
  discount: 0.95,
  end_probability: 0.1,
  weights: [1, 0.9, 0.2],
};
