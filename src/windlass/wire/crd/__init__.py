"""The CustomResourceDefinitions of Framework and Gang."""
