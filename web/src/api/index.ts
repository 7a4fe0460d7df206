export * from "./http";
export * from "./json";
export * from "./live";
export * from "./query";
export * from "./screens";
export * from "./types";
