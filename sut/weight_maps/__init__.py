"""Tables of names: what a tensor of a checkpoint is called in another library. No framework is imported here."""
