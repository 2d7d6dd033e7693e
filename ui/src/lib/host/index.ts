// The door to the host: its commands, events and wire types.

export * from "./host";
