// The grid of the workbench: the world of the scene, on which the open view draws.

import { Board } from "./board.js";
import { byId } from "./dom.js";
import { asked, getScene, getWorld, viewOf } from "./scene.js";

const board = new Board(byId("grid"), () => (getScene().brought ? null : getWorld()), byId("stage-hint"));

export const setMode = (mode) => board.setMode({ layers: () => ({ avoided: viewOf(asked()).avoided }), ...mode });
export const redraw = () => board.redraw();
