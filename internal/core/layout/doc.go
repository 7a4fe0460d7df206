// Package layout places the nodes of a graph on a plane and routes its edges, so that the dashboard, the SVG and the
// terminal show a workflow the same way.
//
// Compute works in four steps. Layers: each node is placed after its parents, and nodes move towards their children
// if that shortens edges. Order: an edge that skips layers gets a dummy node in each of them; then sweeps of
// barycenters and swaps of neighbours reduce the crossings. Place: nodes are aligned with the medians of their
// neighbours, as Brandes and Köpf do it, so that chains and long edges are straight. Route: an edge goes through its
// dummies. Parts of a graph that are not connected are placed below each other, and finally nodes behind everything
// else.
//
// All sizes are integers in a unit that the caller chooses: pixels for pictures, cells for terminals. The same input
// always gives the same output: there is no randomness, and no map is ranged over. Work is bounded by the size of the
// graph, never by a clock.
//
// SVG draws a layout as a picture. The package knows no store and no run; statuses are handed in as words.
package layout
